"""Sizes of weights and activations by arithmetic, for a model of which nothing but the shape is known."""

from octavo.model.config import ModelConfig


def num_parameters(model: ModelConfig) -> int:
    """Numbers that a decoder of this shape is made of: embedding, head, projections, biases, norms and experts.

    Norms beyond the two of a layer are not counted, nor what only some architectures have; that is less than a thousandth.
    """
    embedding = model.vocab_size * model.hidden_size
    head = 0 if model.tie_embeddings else embedding
    layers = sum(_attention_parameters(model) + _mlp_parameters(model, layer) + 2 * model.hidden_size for layer in range(model.num_layers))
    return embedding + head + layers + model.hidden_size


def activation_bytes(model: ModelConfig, *, max_tokens: int, max_requests: int, element_bytes: int) -> int:
    """Bytes of what one layer and the sampler hold at once in a step.

    A layer: residual, its normed copy, projections and attention's output, gate and up with their product. The sampler: logits, once
    more in float32.

    Args:
        model: its shape.
        max_tokens: of the step.
        max_requests: that sample in it.
        element_bytes: of the type of activations.
    """
    heads = 2 * (model.num_heads + model.num_kv_heads) * model.head_size
    inner = max(3 * model.intermediate_size * element_bytes, _mixture_bytes(model, element_bytes))
    layer = max_tokens * ((3 * model.hidden_size + heads) * element_bytes + inner)
    logits = min(max_requests, max_tokens) * model.vocab_size * (element_bytes + 4)
    return max(layer, logits)


def _mixture_bytes(model: ModelConfig, element_bytes: int) -> int:
    """Bytes a token of what its experts hold at once: rows sorted by expert, what becomes of them, and that in float32 to be added up."""
    if model.experts is None:
        return 0
    row = 3 * model.experts.intermediate_size * element_bytes + model.hidden_size * (2 * element_bytes + 4)
    return model.experts.num_experts_per_token * row


def _attention_parameters(model: ModelConfig) -> int:
    queries, keys = model.num_heads * model.head_size, model.num_kv_heads * model.head_size
    projections = model.hidden_size * (2 * queries + 2 * keys)
    biases = model.attention_bias * (queries + 2 * keys) + model.output_bias * model.hidden_size
    return projections + biases + model.qk_norm * 2 * model.head_size


def _mlp_parameters(model: ModelConfig, layer: int) -> int:
    experts = model.experts
    if experts is None or layer in experts.dense_layers:
        return 3 * model.hidden_size * model.intermediate_size + model.mlp_bias * (2 * model.intermediate_size + model.hidden_size)
    return experts.num_experts * (3 * model.hidden_size * experts.intermediate_size + model.hidden_size)
