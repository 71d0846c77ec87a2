"""What the `config.json` of this architecture says."""

from dataclasses import dataclass

from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.foreign import ForeignFields


@dataclass(frozen=True, kw_only=True)
class ExampleGPTConfig(ModelConfig):
    """A shape with one field that no other model has.

    Attributes:
        layer_norm_eps: of every LayerNorm.
    """

    layer_norm_eps: float


def read_config(fields: ForeignFields) -> ExampleGPTConfig:
    """Read a `config.json` of model type "example-gpt". Raises `CheckpointError` naming the field that is missing or wrong."""
    hidden_size, num_heads = fields.positive_int("n_embd"), fields.positive_int("n_head")
    if hidden_size % num_heads:
        raise fields.refused(f"n_embd {hidden_size} is no multiple of {num_heads} heads")
    head_size = hidden_size // num_heads
    eps = fields.positive_float("layer_norm_epsilon", 1e-5)
    return ExampleGPTConfig(
        architecture="example-gpt",
        vocab_size=fields.positive_int("vocab_size"),
        hidden_size=hidden_size,
        intermediate_size=fields.positive_int("n_inner", 4 * hidden_size),
        num_layers=fields.positive_int("n_layer"),
        num_heads=num_heads,
        num_kv_heads=1,
        head_size=head_size,
        rms_norm_eps=eps,
        layer_norm_eps=eps,
        rope=RopeConfig(theta=fields.positive_float("rotary_base", 10_000.0), dim=head_size // 2),
        max_position=fields.positive_int("n_positions"),
        tie_embeddings=False,
        eos_token_ids=fields.token_ids("eos_token_id"),
        bos_token_id=fields.token_id("bos_token_id"),
        stored_dtype=fields.text("torch_dtype", "float32"),
    )
