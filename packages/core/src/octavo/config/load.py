"""Which model, and how its weights are held."""

from dataclasses import dataclass

from octavo.model.source import ModelFiles


@dataclass(frozen=True, kw_only=True)
class LoadConfig:
    """Files of the model and the types they become.

    Attributes:
        files: resolved files.
        dtype: of weights and activations: float32, bfloat16 or float16.
        max_model_len: longest prompt plus output, in tokens.
        max_model_len_is_explicit: whether a user asked for that length; else a small pool may reduce it.
        use_generation_config: take defaults of sampling from the model's files.
    """

    files: ModelFiles
    dtype: str
    max_model_len: int
    max_model_len_is_explicit: bool
    use_generation_config: bool
