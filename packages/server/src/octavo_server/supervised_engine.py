"""The supervisor's engine, as an API process sees it."""

from octavo.engine.process import EngineProcess
from octavo.errors import EngineDeadError
from octavo_server.engines import Engines
from octavo_server.supervised_messages import EngineLost, FromChild, Mailbox, Ready, Serve


class SupervisedEngine(Engines):
    """Says through a mailbox what this process sees; the supervisor acts.

    Args:
        mailbox: of this process.
        may_restart: whether the supervisor starts another engine where one is lost.
    """

    def __init__(self, mailbox: Mailbox[Serve], *, may_restart: bool) -> None:
        self._mailbox = mailbox
        self._may_restart = may_restart

    @property
    def process(self) -> EngineProcess | None:
        return None

    def note_ready(self) -> None:
        self._say(Ready())

    async def replace(self, process: int | None, reason: str) -> None:
        if not self._may_restart:
            raise EngineDeadError(reason)
        self._say(EngineLost(process=process, reason=reason))

    def _say(self, message: FromChild) -> None:
        self._mailbox.say(message)
