"""Sampling flags that several commands have, and what becomes of them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from octavo.llm import LLM
    from octavo.sampling_params import SamplingParams

Temperature = Annotated[float | None, typer.Option(help="0 is greedy; default: the model's generation config, else 0")]
TopP = Annotated[float | None, typer.Option(help="draw from the likeliest tokens of this share of the probability")]
TopK = Annotated[int | None, typer.Option(help="draw from this many of the likeliest tokens; 0: from all")]
MinP = Annotated[float | None, typer.Option(help="drop tokens below this share of the likeliest one's probability")]
PresencePenalty = Annotated[float | None, typer.Option(help="taken from the logit of each token that was generated, -2 to 2")]
FrequencyPenalty = Annotated[float | None, typer.Option(help="the same, times how often it was generated, -2 to 2")]
RepetitionPenalty = Annotated[float | None, typer.Option(help="divides logits of tokens of prompt and answer; 1 is off")]
MinTokens = Annotated[int | None, typer.Option(help="nothing ends an answer before so many tokens")]
IgnoreEos = Annotated[bool | None, typer.Option("--ignore-eos", help="go on past the model's end of sequence")]
Choices = Annotated[int | None, typer.Option("--n", help="independent answers to each prompt")]
Logprobs = Annotated[int | None, typer.Option(help="log-probability of each token and of so many others (with --json)")]
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
