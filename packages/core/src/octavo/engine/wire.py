"""How values travel between processes: typed messages as msgpack, never pickle; what does not fit its type is refused.

Arrays travel as little-endian bytes beside their shape (`octavo.logprobs.LogprobRows`), which are held against each other on arrival.
"""

import msgspec

from octavo import errors
from octavo.errors import CheckpointError, ConfigurationError, EngineDeadError, ModelNotFoundError, OctavoError, PluginError, described

_USERS_ERRORS: tuple[type[OctavoError], ...] = (ConfigurationError, ModelNotFoundError, CheckpointError, PluginError)
"""What a start-up can fail with that its user has to know: arrives as the same class with the same message."""


class Failure(msgspec.Struct, frozen=True, kw_only=True, tag="failure"):
    """An exception that was raised in another process.

    Attributes:
        kind: name of the class in `octavo.errors` for what a user can put right; "" for everything else.
        message: one line.
    """

    kind: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """An exception as it travels; of one that no user can put right, the message names its class."""
        if isinstance(error, _USERS_ERRORS):
            kind = next(base for base in type(error).__mro__ if getattr(errors, base.__name__, None) is base)
            return cls(kind=kind.__name__, message=str(error))
        return cls(kind="", message=str(error) if isinstance(error, EngineDeadError) else described(error))

    def error(self, where: str) -> OctavoError:
        """The exception to raise here: of the same class, or `EngineDeadError` saying where it happened."""
        known = {kind.__name__: kind for kind in _USERS_ERRORS}.get(self.kind)
        return EngineDeadError(f"{where} failed: {self.message}") if known is None else known(self.message)
