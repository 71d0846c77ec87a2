"""The example plugin as a stranger's: loaded by its entry point, beside the built-ins, in this process."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from octavo import LLM, SamplingParams
from octavo.plugins.check import check_names
from octavo.plugins.manager import load_plugins
from octavo.testing.installed import write_plugin
from octavo_example_model import plugin
from octavo_example_model.checkpoint import write_checkpoint

NAME = "example-under-test"
HOOKS = [name for name in vars(plugin) if name.startswith("octavo_register_")]
PROMPTS = ["the end of the matter", "a", "to be or not to be that is the question"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plugin's hooks under an entry point of another name, so that it does not matter whether it is installed besides."""
    site = tmp_path / "site"
    site.mkdir()
    module = write_plugin(site, NAME, f"from octavo_example_model.plugin import {', '.join(HOOKS)}")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("OCTAVO_PLUGINS_ALLOW", f"kernels,models,{NAME}")
    yield
    sys.modules.pop(module, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


def token_ids(folder: Path, params: SamplingParams, prompts: list[str] = PROMPTS, **flags: object) -> list[list[int]]:
    with LLM(str(folder), **{"num_blocks": 32, **flags}) as llm:
        return [output.outputs[0].token_ids for output in llm.generate(prompts, params, use_tqdm=False)]


def test_everything_that_it_registers_is_of_its_kind() -> None:
    loaded = load_plugins(allow=("kernels", "models", NAME))
    (example,) = [plugin for plugin in loaded.plugins if plugin.name == NAME]
    assert set(example.hooks) == set(HOOKS)
    assert check_names(loaded.registries) == ()
    assert loaded.registries.models.owner("example-gpt") == NAME


def test_its_architecture_gives_the_same_in_company_in_chunks_and_out_of_blocks(folder: Path) -> None:
    params = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
    alone = [token_ids(folder, params, [prompt])[0] for prompt in PROMPTS]
    assert token_ids(folder, params, max_num_seqs=4, max_num_batched_tokens=8) == alone
    assert token_ids(folder, params, num_blocks=5, max_model_len=64) == alone
    assert len({tuple(tokens) for tokens in alone}) == len(PROMPTS)


def test_its_sampler_and_policy_are_chosen_by_name(folder: Path) -> None:
    params = SamplingParams(temperature=1.0, seed=7, max_tokens=16, ignore_eos=True)
    drawn = token_ids(folder, params, sampler="top-n-sigma", scheduling_policy="least-work")
    assert drawn == token_ids(folder, params, sampler="top-n-sigma")
    assert drawn != token_ids(folder, params)


def test_its_processor_is_asked_for_by_a_request(folder: Path) -> None:
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, logits_processors={"prompt-bias": 1000})
    with LLM(str(folder), num_blocks=32) as llm:
        (output,) = llm.generate("the end", params, use_tqdm=False)
    assert set(output.outputs[0].token_ids) <= set(output.prompt_token_ids)
