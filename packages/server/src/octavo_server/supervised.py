"""`python -m octavo_server.supervised`: an API process below a supervisor.

Arguments behind the lifeline: descriptors of the listening socket and of the mailbox, the folder of shared metrics, the event loop.
"""

import asyncio
import logging
import socket
import sys
from pathlib import Path

from octavo.engine.child import attach_to_parent
from octavo.engine.wire import Failure
from octavo.env import share_metrics
from octavo.errors import OctavoError
from octavo_server.logs import configure_server_logging
from octavo_server.loops import loop_factory
from octavo_server.supervised_engine import SupervisedEngine
from octavo_server.supervised_messages import Serve, open_mailbox

_log = logging.getLogger(__name__)


def main() -> None:
    """Serve until the supervisor says stop, or something fails; the supervisor hears what."""
    listener, mailbox, metrics_folder, loop = attach_to_parent(sys.argv[1:])
    # Before the metrics are imported: they look for it then.
    share_metrics(metrics_folder)
    with asyncio.Runner(loop_factory=loop_factory(loop)) as runner:
        serving = _serve(socket.socket(fileno=int(listener)), socket.socket(fileno=int(mailbox)))
        sys.exit(runner.run(serving))


async def _serve(listener: socket.socket, connection: socket.socket) -> int:
    """Exit status."""
    from octavo_server.api_process import ApiProcess
    from octavo_server.stop import StopSignal

    mailbox = await open_mailbox(connection, Serve)
    order = await anext(mailbox.listen())
    configure_server_logging(order.launch.config)
    stop = StopSignal(abandon=lambda: None)
    stop.listen()
    engine = SupervisedEngine(mailbox, may_restart=order.launch.config.restart_engine)
    try:
        process = ApiProcess(order.launch, listener, engine, folder=Path(order.folder), client=order.client, stop=stop)
        await process.run()
    except OctavoError as error:
        _log.debug("ends with %s", type(error).__name__, exc_info=True)
        mailbox.say(Failure.of(error))
        return 1
    finally:
        await mailbox.close()
    return 0


if __name__ == "__main__":
    main()
