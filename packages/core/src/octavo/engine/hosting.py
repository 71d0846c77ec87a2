"""The engine process: what runs in it from its first line to its exit status."""

import logging
import os
import signal
import sys
from pathlib import Path

import msgspec
import zmq

from octavo.config.engine import Decision
from octavo.engine.child import attach_to_parent
from octavo.engine.client import InProcessClient
from octavo.engine.folder import socket_path, write_private
from octavo.engine.messages import ModelInfo
from octavo.engine.orders import Started, StartEngine, order_path, outcome_path
from octavo.engine.server import EngineServer
from octavo.engine.sockets import listen
from octavo.engine.wire import Failure
from octavo.env import let_waiting_threads_sleep

# The thread that carries messages waits this long at most for the one that steps the engine; the interpreter's own 5 ms are as long
# as a step of a small model.
_SWITCH_INTERVAL_S = 0.0005
_FAREWELL_MS = 500


def main() -> int:
    """Run an engine for the parent of this process; the exit status."""
    folder_name, number = attach_to_parent(sys.argv[1:])
    folder, engine = Path(folder_name), int(number)
    let_waiting_threads_sleep()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    order = msgspec.msgpack.decode(order_path(folder, engine).read_bytes(), type=StartEngine)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = listen(context, folder, engine)
    server = EngineServer(socket, engine=engine)
    signal.signal(signal.SIGTERM, lambda _number, _frame: server.stop())
    code = server.run(lambda: _load(order, folder))
    socket.close(linger=_FAREWELL_MS)
    socket_path(folder, engine).unlink(missing_ok=True)
    context.term()
    if server.is_loading:
        # What is being loaded cannot be interrupted, and nobody needs it any more.
        logging.shutdown()
        os._exit(code)
    return code


def _load(order: StartEngine, folder: Path) -> tuple[InProcessClient, ModelInfo, tuple[Decision, ...]]:
    """Build the engine and leave word how that ended."""
    path = outcome_path(folder, order.engine)
    try:
        from octavo.engine.build import build_engine

        engine = build_engine(order.options, plugins_allow=order.plugins_allow, plugins_block=order.plugins_block)
    except BaseException as error:
        write_private(path, msgspec.msgpack.encode(Failure.of(error)))
        raise
    write_private(path, msgspec.msgpack.encode(Started(info=engine.info)))
    return engine.client, engine.info, engine.decisions
