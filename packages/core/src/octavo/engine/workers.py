"""The worker processes of an executor, one a rank, seen from the engine."""

import select
import socket
import time
from collections.abc import Iterable, Sequence

from octavo.engine.channel import Channel, ChannelClosed
from octavo.engine.child import BEAT_S, ChildProcess
from octavo.engine.wire import Failure
from octavo.engine.worker_messages import StepDone, WorkerAnswer, WorkerStarted, decode_answer
from octavo.errors import EngineDeadError

FROZEN_AFTER_S = 4.0
"""A worker that has not beaten for so long is frozen."""

FROZEN_AFTER_START_S = 60.0
"""The same while it starts: libraries that are loaded from a slow disk hold the interpreter for seconds."""

_MOST_COUNTED_GAP_S = 1.0
_EXIT_S = 1.0
_MODULE = "octavo.engine.worker"


class Worker:
    """The process of one rank.

    Two socket pairs lead to it: one for messages, and the lifeline of `ChildProcess` for beats. They have no name that others could
    connect to, and end with either process.
    """

    def __init__(self, rank: int) -> None:
        ours, theirs = socket.socketpair()
        try:
            self.child = ChildProcess(_MODULE, [str(theirs.fileno())], inherit=[theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.name = f"the worker of rank {rank} (process {self.child.pid})"
        self.channel = Channel(ours)
        self._silent_s = 0.0
        self._listened_at = time.monotonic()

    def listen(self, frozen_after_s: float) -> None:
        """Take the beats that came. Raises `EngineDeadError` where the process is gone or has been silent for too long.

        Time in which nobody listened counts as a second at most: where this process was stopped itself, the worker may have been too.
        """
        now = time.monotonic()
        gap = min(now - self._listened_at, _MOST_COUNTED_GAP_S)
        self._listened_at = now
        if self.child.take_beats():
            self._silent_s = 0.0
        elif self.child.is_gone:
            raise self.gone()
        else:
            self._silent_s += gap
        if self._silent_s > frozen_after_s:
            raise EngineDeadError(f"{self.name} is frozen: it gave no sign of life for {frozen_after_s:g} s")

    def gone(self) -> EngineDeadError:
        """Why the process says nothing more."""
        self.child.wait(_EXIT_S)
        return EngineDeadError(f"{self.name} {self.child.describe_exit()}")

    def end(self, grace_s: float) -> None:
        """Hang up, upon which the worker ends by itself, and kill it where it has not after `grace_s` seconds."""
        self.channel.close()
        self.child.wait(grace_s)
        self.child.kill()


class WorkerGroup:
    """All workers of an executor: what is said is said to all, and each of them has to answer.

    Args:
        size: how many ranks there are.
    """

    def __init__(self, size: int) -> None:
        self._workers: list[Worker] = []
        self._frozen_after_s = FROZEN_AFTER_START_S
        try:
            for rank in range(size):
                self._workers.append(Worker(rank))
        except BaseException:
            self.end(0.0)
            raise

    @property
    def process_ids(self) -> list[int]:
        """Of the workers, by rank."""
        return [worker.child.pid for worker in self._workers]

    def send(self, messages: Iterable[bytes]) -> None:
        """Send each rank its message. Raises `EngineDeadError` where one is lost."""
        for worker, message in zip(self._workers, messages, strict=True):
            try:
                worker.channel.send(message, lambda worker=worker: self._wait([worker], select.POLLOUT))  # type: ignore[misc]
            except ChannelClosed as error:
                raise worker.gone() from error

    def broadcast(self, message: bytes) -> None:
        """Send all ranks the same message. Raises `EngineDeadError` where one is lost."""
        self.send([message] * len(self._workers))

    def gather_started(self) -> list[WorkerStarted]:
        """What each rank says of its start, by rank; from then on silence is taken for what it is."""
        answers = [answer for answer in self._gather() if isinstance(answer, WorkerStarted)]
        assert len(answers) == len(self._workers), "a worker answered something else than that it started"
        self._frozen_after_s = FROZEN_AFTER_S
        return answers

    def gather_done(self) -> list[StepDone]:
        """What each rank says of the oldest step under way, by rank."""
        answers = [answer for answer in self._gather() if isinstance(answer, StepDone)]
        assert len(answers) == len(self._workers), "a worker answered something else than a step"
        return answers

    def check(self) -> None:
        """Raise `EngineDeadError` where a rank is lost; never waits."""
        for worker in self._workers:
            worker.listen(self._frozen_after_s)

    def end(self, grace_s: float) -> None:
        """End all workers, those that have not ended by themselves after `grace_s` seconds by force; calling it twice is fine."""
        deadline = time.monotonic() + grace_s
        for worker in self._workers:
            worker.channel.close()
        for worker in self._workers:
            worker.end(max(0.0, deadline - time.monotonic()))
        self._workers = []

    def _gather(self) -> Sequence[WorkerAnswer]:
        """The next answer of every rank. Raises the first failure, whichever rank it is of, or `EngineDeadError`."""
        answers: dict[Worker, WorkerAnswer] = {}
        while waiting := [worker for worker in self._workers if worker not in answers]:
            for worker in waiting:
                try:
                    message = worker.channel.take()
                except ChannelClosed as error:
                    raise worker.gone() from error
                if message is None:
                    continue
                answer = decode_answer(message)
                if isinstance(answer, Failure):
                    raise answer.error(worker.name)
                answers[worker] = answer
            if len(answers) < len(self._workers):
                self._wait(waiting, select.POLLIN)
        return [answers[worker] for worker in self._workers]

    def _wait(self, workers: Sequence[Worker], event: int) -> None:
        """Wait until something happens between us and some workers, listening to all of them."""
        poll = select.poll()
        for worker in workers:
            poll.register(worker.channel, event)
        for worker in self._workers:
            poll.register(worker.child.lifeline, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(BEAT_S * 1000)}
        if not ready & {worker.channel.fileno() for worker in workers}:
            self.check()
