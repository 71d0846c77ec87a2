"""The process of one rank: `python -m octavo.engine.worker`, started by an executor only."""

import logging
import os
import select
import socket
import sys
import time

from octavo.engine.channel import Channel, ChannelClosed
from octavo.engine.child import attach_to_parent
from octavo.engine.executor import Executor
from octavo.engine.inprocess import InProcessExecutor
from octavo.engine.wire import Failure
from octavo.engine.worker_messages import StartWorker, StepDone, WorkerStarted, decode_plan, decode_start, encode, unpack_config
from octavo.errors import OctavoError
from octavo.plugins.manager import load_plugins

_log = logging.getLogger("octavo.engine.worker")


def main() -> int:
    """Serve the parent until it hangs up; the exit status is 1 where something failed, which the parent has been told then."""
    (descriptor,) = attach_to_parent(sys.argv[1:])
    os.set_inheritable(int(descriptor), False)
    connection = _Connection(socket.socket(fileno=int(descriptor)))
    try:
        start = decode_start(connection.receive())
        executor = _start(connection, start)
        if executor is None:
            return 1
        try:
            return _serve(connection, executor, start.rank)
        finally:
            executor.shutdown()
    except ChannelClosed:
        return 0


class _Connection:
    """The worker's end of the channel, on which it waits as long as it takes: the beats say that it lives."""

    def __init__(self, connection: socket.socket) -> None:
        self._channel = Channel(connection)
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(connection, select.POLLIN)
        self._writable.register(connection, select.POLLOUT)

    def receive(self) -> bytes:
        return self._channel.receive(lambda: self._wait(self._readable))

    def send(self, message: bytes) -> None:
        self._channel.send(message, lambda: self._wait(self._writable))

    @staticmethod
    def _wait(poll: select.poll) -> None:
        poll.poll()


def _start(connection: _Connection, start: StartWorker) -> Executor | None:
    """Load the model and tell the parent; None where that failed and it has been told so."""
    executor: Executor | None = None
    try:
        config = unpack_config(start.config)
        executor = InProcessExecutor(config, load_plugins(allow=start.plugins).registries, start.plugins)
        pool = executor.start()
    except BaseException as error:  # noqa: BLE001 - it is raised in the parent
        if not isinstance(error, OctavoError):
            _log.exception("the start of rank %d failed", start.rank)
        if executor is not None:
            executor.shutdown()
        connection.send(encode(Failure.of(error)))
        return None
    connection.send(encode(WorkerStarted(pool=pool, decisions=executor.decisions)))
    return executor


def _serve(connection: _Connection, executor: Executor, rank: int) -> int:
    """Carry out plans until one fails; `ChannelClosed` ends it too."""
    while True:
        plan = decode_plan(connection.receive())
        start = time.perf_counter()
        try:
            result = executor.submit(plan).result()
        except BaseException as error:  # noqa: BLE001 - it is raised in the parent
            _log.exception("step %d failed on rank %d", plan.step_id, rank)
            connection.send(encode(Failure.of(error)))
            return 1
        busy_s = time.perf_counter() - start
        connection.send(encode(StepDone(result=result if rank == 0 else None, busy_s=busy_s)))


if __name__ == "__main__":
    sys.exit(main())
