"""What a checkpoint says about its tokenizer, whatever its format."""

from dataclasses import dataclass, field

from tokenizers import Tokenizer as Backend


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """A tokenizer as it was read.

    Attributes:
        backend: of the `tokenizers` library.
        special_tokens: role -> spelling, such as "bos_token" -> "<s>"; chat templates see these names.
        adds_bos, adds_eos: whether special tokens are put around a text; None leaves it to the backend's post-processor.
        chat_template: jinja source.
    """

    backend: Backend
    special_tokens: dict[str, str] = field(default_factory=dict)
    adds_bos: bool | None = None
    adds_eos: bool | None = None
    chat_template: str | None = None
