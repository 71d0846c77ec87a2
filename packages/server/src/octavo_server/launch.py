"""What `octavo serve` starts."""

from dataclasses import dataclass

from octavo.config.options import EngineOptions
from octavo_server.config import ServerConfig


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The whole command line; msgspec carries it to other processes.

    Attributes:
        config: flags of the server.
        options: flags of the engine.
        plugins_allow: the only plugins to load; None: all.
        plugins_block: plugins not to load.
    """

    config: ServerConfig
    options: EngineOptions
    plugins_allow: tuple[str, ...] | None = None
    plugins_block: tuple[str, ...] = ()
