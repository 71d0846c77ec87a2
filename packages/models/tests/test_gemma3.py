"""Gemma 3 against Transformers: as a whole, in chunks, from every kind of file, and through the engine."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from octavo import LLM, SamplingParams
from octavo.cache.spec import kv_groups
from octavo.errors import ConfigurationError
from octavo_models.gemma3 import Gemma3Model
from octavo_models.testing import write_gguf_model, write_weights
from octavo_models.testing.conformance import MODEL_CASES, check_model, chunked_logits, read_model
from octavo_models.testing.dense import dense_logits, load_tiny_model
from octavo_models.testing.gemma3 import tiny_gemma3_config, tiny_gemma3_weights, write_tiny_gemma3

NEWER = {
    "rope_theta": None,
    "rope_local_base_freq": None,
    "sliding_window_pattern": None,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0},
    },
}
STRETCHED: dict[str, Any] = {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}
CASES: dict[str, dict[str, Any]] = {
    "as files were before Transformers 5": {},
    "global positions stretched": STRETCHED,
    "as Transformers 5 writes it": NEWER,
    "soft cap on logits": {"final_logit_softcapping": 5.0},
    "untied head": {"tie_word_embeddings": False},
    "attention bias": {"attention_bias": True},
    "pattern and bases unsaid": {"rope_theta": None, "rope_local_base_freq": None, "sliding_window_pattern": None, "num_hidden_layers": 7},
    "one KV head": {"num_key_value_heads": 1},
    "layers that all have the window": {"layer_types": ["sliding_attention"] * 6},
    "layers that all see everything": {"layer_types": ["full_attention"] * 6},
}
GREEDY = SamplingParams(temperature=0, max_tokens=32, ignore_eos=True)

Reference = Callable[..., tuple[Path, Any]]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """`reference(**config)` -> a checkpoint, and the same model of Transformers."""
    transformers = pytest.importorskip("transformers")
    made: dict[str, tuple[Path, Any]] = {}

    def make(**config: Any) -> tuple[Path, Any]:
        key = json.dumps(config)
        if key not in made:
            folder = write_tiny_gemma3(tmp_path_factory.mktemp("gemma3"), **config)
            settings = json.loads((folder / "config.json").read_text())
            model = transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**settings, attn_implementation="eager")).eval()
            weights = {name: torch.from_numpy(weight) for name, weight in tiny_gemma3_weights(settings, 0).items()}
            weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"])
            model.load_state_dict(weights)
            made[key] = folder, model
        return made[key]

    return make


def tokens(length: int, seed: int = 1) -> Tensor:
    return torch.randint(3, 512, (length,), generator=torch.Generator().manual_seed(seed))


def transformers_logits(model: Any, token_ids: Tensor) -> Tensor:
    with torch.inference_mode():
        logits: Tensor = model(token_ids[None], use_cache=False).logits[0]
    return logits


def transformers_greedy(model: Any, prompt: list[int], count: int) -> list[int]:
    known = list(prompt)
    for _ in range(count):
        known.append(int(transformers_logits(model, torch.tensor(known))[-1].argmax()))
    return known[len(prompt) :]


@pytest.mark.parametrize("case", CASES)
def test_logits_equal_those_of_transformers_at_once_and_in_chunks(reference: Reference, case: str) -> None:
    folder, model = reference(**CASES[case])
    ours, token_ids = load_tiny_model(folder), tokens(40)
    expected = transformers_logits(model, token_ids)
    torch.testing.assert_close(dense_logits(ours, token_ids), expected, rtol=0, atol=1e-4)
    torch.testing.assert_close(chunked_logits(ours, token_ids, [13, 1, 20, 6]), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("case", MODEL_CASES)
def test_keeps_the_promises_of_models(tmp_path: Path, case: str) -> None:
    check_model(read_model(write_tiny_gemma3(tmp_path / "tiny"), Gemma3Model), case)


@pytest.mark.parametrize("prefixes", [("language_model.model.", "language_model."), ("model.language_model.", "")])
def test_of_a_model_that_reads_images_the_text_part_is_read(tmp_path: Path, prefixes: tuple[str, str]) -> None:
    plain = write_tiny_gemma3(tmp_path / "plain", tie_word_embeddings=False)
    folder = write_tiny_gemma3(tmp_path / "whole", tie_word_embeddings=False)
    text = tiny_gemma3_config()
    (folder / "config.json").write_text(
        json.dumps(
            {"model_type": "gemma3", "text_config": text, "tie_word_embeddings": False, "eos_token_id": [1, 106], "vision_config": {}}
        )
    )
    body, head = prefixes
    weights = tiny_gemma3_weights(tiny_gemma3_config(tie_word_embeddings=False), 0)
    renamed = {
        f"{body}{name.removeprefix('model.')}" if name.startswith("model.") else f"{head}{name}": value for name, value in weights.items()
    }
    other = {"vision_tower.layer.weight": weights["model.norm.weight"], "multi_modal_projector.weight": weights["model.norm.weight"]}
    if body.startswith("model."):
        other = {f"model.{name}": value for name, value in other.items()}
    write_weights(folder, renamed | other)
    model = load_tiny_model(folder)
    assert isinstance(model, Gemma3Model)
    assert model.config.eos_token_ids == (1, 106)
    assert torch.equal(dense_logits(model, tokens(20)), dense_logits(load_tiny_model(plain), tokens(20)))


def test_a_gguf_file_gives_the_same_model(tmp_path: Path) -> None:
    settings = tiny_gemma3_config(intermediate_size=96, hidden_size=64)
    plain = load_tiny_model(write_tiny_gemma3(tmp_path / "plain", hidden_size=64))
    path = write_gguf_model(tmp_path / "tiny.gguf", settings, tiny_gemma3_weights(settings, 0), quantization="F32")
    model = load_tiny_model(path)
    assert isinstance(model, Gemma3Model)
    assert kv_groups(model.config, block_size=8, dtype="float32") == kv_groups(plain.config, block_size=8, dtype="float32")
    torch.testing.assert_close(dense_logits(model, tokens(40)), dense_logits(plain, tokens(40)), rtol=0, atol=1e-5)


def test_norms_of_a_gguf_file_lose_nothing_in_a_narrow_type(tmp_path: Path) -> None:
    settings = tiny_gemma3_config()
    weights = {name: torch.from_numpy(value).bfloat16().float().numpy() for name, value in tiny_gemma3_weights(settings, 0).items()}
    path = write_gguf_model(tmp_path / "tiny.gguf", settings, weights, quantization="F32")
    model = load_tiny_model(path, dtype="bfloat16")
    loaded = model.get_parameter("layers.0.query_norm.weight")
    assert torch.equal(loaded.float(), torch.from_numpy(weights["model.layers.0.self_attn.q_norm.weight"]))


def test_embeddings_are_scaled_by_a_number_of_the_models_type(tmp_path: Path) -> None:
    folder = write_tiny_gemma3(tmp_path / "tiny", hidden_size=1152, num_hidden_layers=3)
    for dtype, scale in (("float32", 1152**0.5), ("bfloat16", 34.0)):
        model = load_tiny_model(folder, dtype=dtype)
        (embedded,) = model.embed(torch.tensor([7]))
        assert torch.equal(embedded, model.get_parameter("embedding.weight")[7:8] * torch.tensor(scale, dtype=model.dtype))


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    shared = tokens(24).tolist()
    return [tokens(40, 2).tolist(), shared + tokens(16, 3).tolist(), shared + tokens(9, 4).tolist(), tokens(3, 5).tolist()]


@pytest.fixture(scope="module")
def expected(reference: Reference, prompts: list[list[int]]) -> list[list[int]]:
    _, model = reference(**STRETCHED)
    return [transformers_greedy(model, prompt, 32) for prompt in prompts]


def engine(folder: Path, **flags: Any) -> LLM:
    settings = {"dtype": "float32", "block_size": 8, "num_blocks": 300, "max_model_len": 128, "max_num_seqs": 4}
    return LLM(str(folder), **(settings | flags))


def continuations(llm: LLM, prompts: list[list[int]]) -> list[list[int]]:
    return [output.outputs[0].token_ids for output in llm.generate([*prompts], GREEDY, use_tqdm=False)]


@pytest.mark.parametrize(
    ("chunk", "cached", "attention_backend"), [(512, True, "auto"), (11, True, "sdpa"), (11, False, "auto"), (512, False, "sdpa")]
)
def test_the_engine_gives_the_greedy_tokens_of_transformers(
    reference: Reference, prompts: list[list[int]], expected: list[list[int]], chunk: int, cached: bool, attention_backend: str
) -> None:
    folder, _ = reference(**STRETCHED)
    flags = {"max_num_batched_tokens": chunk, "enable_prefix_caching": cached, "attention_backend": attention_backend}
    with engine(folder, **flags) as llm:
        assert continuations(llm, prompts) == expected
        assert continuations(llm, prompts[::-1]) == expected[::-1]
        assert (llm.stats().counters.prefix_hits > 0) is cached


def test_layers_that_pad_a_group_change_nothing(reference: Reference) -> None:
    folder, model = reference(num_hidden_layers=11)
    prompt = tokens(20).tolist()
    with engine(folder) as llm:
        groups = kv_groups(llm.engine.config.model, block_size=8, dtype="float32")
        assert [(group.layers, group.num_padded_layers) for group in groups] == [
            ((2, 5, 8), 0),
            ((0, 1, 3), 0),
            ((4, 6, 7), 0),
            ((9, 10), 1),
        ]
        assert continuations(llm, [prompt]) == [transformers_greedy(model, prompt, 32)]


def test_blocks_that_windows_have_passed_come_back_while_a_request_runs(reference: Reference) -> None:
    folder, _ = reference()
    with engine(folder, num_blocks=40, max_num_batched_tokens=16) as llm:
        (full, *windows) = kv_groups(llm.engine.config.model, block_size=8, dtype="float32")
        assert full.layers == (2, 5)
        assert [group.layers for group in windows] == [(0, 1), (3, 4)]
        held, most = {}, SamplingParams(temperature=0, max_tokens=80, ignore_eos=True)
        for output in llm.stream(tokens(40).tolist(), most):
            if not output.finished:
                held[40 + len(output.outputs[0].token_ids)] = round(llm.stats().kv_usage * 40)
    # A step holds at most the block of the token that it computes and the one before in each of the two groups with windows.
    extra = [blocks - -(-(length - 1) // 8) for length, blocks in held.items() if length > 41]
    assert len(extra) > 70
    assert set(extra) <= {2, 3, 4}


def test_a_model_whose_layers_all_forget_runs_longer_than_its_pool(reference: Reference) -> None:
    folder, model = reference(layer_types=["sliding_attention"] * 6, sliding_window_pattern=None)
    prompt = tokens(60).tolist()
    with engine(folder, num_blocks=4, max_num_batched_tokens=16, max_model_len=120) as llm:
        assert continuations(llm, [prompt]) == [transformers_greedy(model, prompt, 32)]
    with pytest.raises(ConfigurationError, match="max_model_len"):
        engine(folder, num_blocks=3, max_num_batched_tokens=16, max_model_len=120)


@pytest.mark.parametrize("cached", [True, False])
def test_preempted_requests_give_the_same_tokens(reference: Reference, prompts: list[list[int]], cached: bool) -> None:
    folder, _ = reference(**STRETCHED)
    short, params = [prompt[:10] for prompt in prompts], SamplingParams(temperature=0, max_tokens=60, ignore_eos=True)
    given = []
    for num_blocks in (100, 28):
        with engine(folder, enable_prefix_caching=cached, num_blocks=num_blocks, max_model_len=72, max_num_batched_tokens=16) as llm:
            outputs = llm.generate([*short], params, use_tqdm=False)
            given.append([output.outputs[0].token_ids for output in outputs])
            assert (llm.stats().counters.preemptions > 0) is (num_blocks == 28)
    assert given[0] == given[1]
