"""From the engine's flags to a model that is ready."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from octavo.cli.options import EngineFlags

if TYPE_CHECKING:
    from octavo.llm import LLM


def load_llm(flags: EngineFlags) -> "LLM":
    """Load the model with the flags of a command line; messages go to standard error."""
    from octavo.engine.phases import hide_phases
    from octavo.llm import LLM
    from octavo.log import configure_logging

    configure_logging("debug" if flags.debug else "info")
    if not flags.debug:
        hide_phases()
    return LLM(**asdict(flags.options), plugins_allow=flags.plugins_allow, plugins_block=flags.plugins_block)
