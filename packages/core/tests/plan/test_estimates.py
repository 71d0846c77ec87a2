from dataclasses import replace

from octavo.model.config import ExpertsConfig, ModelConfig, RopeConfig
from octavo.plan.estimates import activation_bytes, num_parameters

LLAMA_3_8B = ModelConfig(
    architecture="llama",
    vocab_size=128_256,
    hidden_size=4096,
    intermediate_size=14_336,
    num_layers=32,
    num_heads=32,
    num_kv_heads=8,
    head_size=128,
    rms_norm_eps=1e-5,
    rope=RopeConfig(theta=5e5, dim=128),
    max_position=131_072,
    tie_embeddings=False,
    stored_dtype="bfloat16",
)
QWEN_2_5_05B = ModelConfig(
    architecture="qwen2",
    vocab_size=151_936,
    hidden_size=896,
    intermediate_size=4864,
    num_layers=24,
    num_heads=14,
    num_kv_heads=2,
    head_size=64,
    rms_norm_eps=1e-6,
    rope=RopeConfig(theta=1e6, dim=64),
    max_position=32_768,
    tie_embeddings=True,
    attention_bias=True,
)
QWEN_3_30B_A3B = replace(
    QWEN_2_5_05B,
    architecture="qwen3_moe",
    hidden_size=2048,
    intermediate_size=6144,
    num_layers=48,
    num_heads=32,
    num_kv_heads=4,
    head_size=128,
    tie_embeddings=False,
    attention_bias=False,
    qk_norm=True,
    experts=ExpertsConfig(num_experts=128, num_experts_per_token=8, intermediate_size=768, normalize_weights=True),
)


def test_parameters_are_those_that_the_models_publish() -> None:
    assert num_parameters(LLAMA_3_8B) == 8_030_261_248
    assert num_parameters(QWEN_2_5_05B) == 494_032_768
    assert num_parameters(QWEN_3_30B_A3B) == 30_532_122_624


def test_dense_layers_of_a_mixture_have_their_own_size() -> None:
    experts = QWEN_3_30B_A3B.experts
    assert experts is not None
    mixed = replace(QWEN_3_30B_A3B, experts=replace(experts, dense_layers=(0,)))
    in_experts = 128 * (3 * 2048 * 768 + 2048)
    assert num_parameters(QWEN_3_30B_A3B) - num_parameters(mixed) == in_experts - 3 * 2048 * 6144


def test_activations_are_those_of_a_layer_or_of_the_sampler() -> None:
    wide = activation_bytes(LLAMA_3_8B, max_tokens=8192, max_requests=1, element_bytes=2)
    assert wide == 8192 * (3 * 4096 + 2 * 40 * 128 + 3 * 14_336) * 2
    assert activation_bytes(LLAMA_3_8B, max_tokens=256, max_requests=256, element_bytes=2) == 256 * 128_256 * 6
