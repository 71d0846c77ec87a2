"""For every suite: threads wait as they do in the program, which has to be settled before torch is imported."""

from octavo.env import let_waiting_threads_sleep

let_waiting_threads_sleep()
