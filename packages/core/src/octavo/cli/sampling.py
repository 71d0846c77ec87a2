"""Sampling flags that several commands have, and what becomes of them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from octavo.llm import LLM
    from octavo.sampling_params import SamplingParams

Temperature = Annotated[float | None, typer.Option(help="0 is greedy; default: the model's generation config, else 0")]
TopP = Annotated[float | None, typer.Option(help="draw from the likeliest tokens of this share of the probability")]
TopK = Annotated[int | None, typer.Option(help="draw from this many of the likeliest tokens; 0: from all")]
Stop = Annotated[list[str] | None, typer.Option(help="text that ends an answer before it; may be repeated", metavar="TEXT")]


def check_sampling(**typed: Any) -> dict[str, Any]:
    """The sampling parameters that were typed, without those that were not. Raises `InvalidRequestError` for what no model could take."""
    from octavo.sampling_params import SamplingParams

    given = {name: value for name, value in typed.items() if value is not None}
    SamplingParams(**given)
    return given


def settle_sampling(llm: "LLM", given: dict[str, Any]) -> "SamplingParams":
    """What was typed, below it the model's defaults, and greedy where neither says a temperature."""
    if llm.engine.generation_defaults.temperature is None:
        given = {"temperature": 0.0} | given
    return llm.default_sampling_params(**given)
