"""Flags that cannot be: one line with the value, the limit and the way out, and exit code 2 (1 where a model is not found)."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from octavo import LLM
from octavo.errors import ConfigurationError, ModelNotFoundError, PluginError
from octavo.testing.installed import write_plugin
from tests.refusals.engine import Finished


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name is looked up on the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize("name", ["", "no such model", "../nothing", "a" * 5000, "x\0y", "~nobody-of-this-name/x", "/dev/null/x", "//"])
def test_an_unknown_model_says_what_was_tried(name: str, start: Callable[..., LLM], generate: Callable[..., Finished]) -> None:
    with pytest.raises(ModelNotFoundError):
        start(name)
    if "\0" not in name:
        finished = generate(name)
        assert finished.code == 1
        assert "registered sources (" in finished.error or "holds no model" in finished.error


def test_a_repository_that_is_not_there_says_that_no_folder_is_either(generate: Callable[..., Finished]) -> None:
    finished = generate("some-owner/some-model")
    assert finished.code == 1
    assert "hub repository 'some-owner/some-model'" in finished.error
    assert "(nor is there a file or folder 'some-owner/some-model')" in finished.error


@pytest.mark.parametrize("model", [7, b"tiny", ["tiny"]])
def test_a_model_is_text_or_a_path(model: object) -> None:
    with pytest.raises(ConfigurationError, match="give a name as text, or a path"):
        LLM(model)  # type: ignore[arg-type]


def test_links_that_lead_in_a_circle_lead_nowhere(tmp_path: Path, start: Callable[..., LLM]) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(ModelNotFoundError, match="no model"):
        start(tmp_path / "loop")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").symlink_to(folder / "config.json")
    (folder / "model.safetensors").symlink_to(folder)
    with pytest.raises(ModelNotFoundError, match="holds no model"):
        start(folder)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--dtype", "int3"], "dtype 'int3' is unknown: there are auto, float32, bfloat16, float16"),
        (["--max-model-len", "513"], "max_model_len 513 is over the model's own 512: give 512 or less, or leave it out"),
        (["--max-model-len", "0"], "max_model_len '0' is below 1: give 1 or more"),
        (["--max-model-len", "8q"], "max_model_len '8q' is not a whole number"),
        (["--kv-cache-memory-bytes", "1GiB"], "num_blocks 12 and kv_cache_memory_bytes '1GiB' both size the pool: give one of them"),
        (["--block-size", "12"], "block_size 12 is not a multiple of 8 from 8 to 256"),
        (["--max-num-seqs", "9", "--max-num-batched-tokens", "8"], "max_num_seqs 9 is over max_num_batched_tokens 8"),
        (["--load-format", "pt"], "load_format 'pt' is unknown: there are auto, safetensors, gguf, dummy"),
        (["--attention-backend", "magic"], "unknown attention backend 'magic': there are "),
        (["--sampler", "magic"], "unknown sampler 'magic': there are "),
        (["--scheduling-policy", "fcfz"], "did you mean 'fcfs'?"),
        (["--revision", "main"], "revision 'main' is for repositories of the hub"),
        (["--plugins-allow", "nothing"], "allowed plugin 'nothing' is not installed: there are "),
        (["--max-model-len", "512"], "max_model_len 512 needs 256.00 KiB of KV cache (32 blocks) and 96.00 KiB (12 blocks) are available"),
        (["--max-num-batched-tokens", "1000000000"], "there is no memory for the KV pool and the buffers of a step"),
        (["--temperature", "-1"], "temperature is -1.0, but it must be between 0 and 100"),
        (["--stop", ""], "an empty stop string would end every text at once"),
    ],
)
def test_a_flag_that_cannot_be_is_refused_with_the_way_out(
    tiny: Path, generate: Callable[..., Finished], flags: list[str], said: str
) -> None:
    finished = generate(tiny, *flags)
    assert finished.code == 2
    assert said in finished.error


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"num_blocks": 10**12}, r"takes 7.28 PiB, and the device has .* available\): give num_blocks \d+ or less"),
        ({"num_blocks": None, "kv_cache_memory_bytes": "1PiB"}, r"takes 1.00 PiB, and the device has"),
        ({"num_blocks": None, "kv_cache_memory_bytes": 1}, r"one block of 16 tokens takes 8.00 KiB and 0 B are left"),
        ({"num_blocks": None, "memory_utilization": 1e-9}, r"no memory for the KV cache"),
    ],
)
def test_a_pool_that_memory_cannot_hold_is_refused_with_the_numbers(
    tiny: Path, start: Callable[..., LLM], flags: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        start(tiny, **flags)


def test_weights_that_memory_cannot_hold_are_refused_with_the_numbers(
    tiny: Path, start: Callable[..., LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    from octavo.config import machine
    from octavo_models.loading import room

    small = machine.read_machine()
    monkeypatch.setattr(room, "read_machine", lambda: type(small)(**{**vars(small), "available_memory": 100 << 10}))
    with pytest.raises(ConfigurationError, match=r"the weights take 417.25 KiB in float32, and 100.00 KiB of .* are available"):
        start(tiny)
    monkeypatch.undo()


def test_an_unknown_flag_of_the_program_is_refused(tiny: Path, generate: Callable[..., Finished]) -> None:
    finished = generate(tiny, "--max-model-length", "7")
    assert finished.code == 2
    assert "No such option: --max-model-length" in finished.error


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "max-model-length: 7\n",
            "has the unknown key 'max-model-length': it is no option of 'octavo generate'; did you mean 'max-model-len'?",
        ),
        ("max-model-len: [1]\nnum-blocks: {a: 1}\n", "gives 'num-blocks' the value {'a': 1}"),
        ("- 1\n", "holds a list: write one 'option: value' a line"),
        ("a: b: c\n", "is not YAML"),
        ("!!python/object/apply:os.mkdir ['trace']\n", "is not YAML"),
        ("\0", "is not YAML"),
    ],
)
def test_a_file_of_flags_that_cannot_be_is_refused(
    tiny: Path, tmp_path: Path, generate: Callable[..., Finished], content: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "flags.yaml"
    path.write_text(content)
    finished = generate(tiny, "--config", path)
    assert finished.code == 2
    assert said in finished.error
    assert [entry.name for entry in tmp_path.iterdir()] == ["flags.yaml"]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Make a module look like an installed plugin."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    modules: list[str] = []
    yield lambda name, source, **more: modules.append(write_plugin(folder, name, source, **more))
    for module in modules:
        sys.modules.pop(module, None)


TWICE = """
import octavo

@octavo.hookimpl
def octavo_register_models(registry):
    registry.register("llama", "somewhere:Else")
"""
UNKNOWN_HOOK = """
import octavo

@octavo.hookimpl
def octavo_register_modles(registry):
    pass
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "import nothing_of_this_name",
            "plugin 'zz-broken' .* does not import: ModuleNotFoundError: No module named 'nothing_of_this_name'",
        ),
        ("raise SystemExit(3)", "plugin 'zz-broken' .* does not import: SystemExit"),
        (TWICE, "model architecture 'llama' of plugin 'zz-broken' is already registered by plugin 'models'"),
        (UNKNOWN_HOOK, "implements unknown hook 'octavo_register_modles': .*did you mean 'octavo_register_models'"),
    ],
)
def test_a_broken_plugin_is_named_and_nothing_starts(
    tiny: Path, source: str, said: str, install: Callable[..., None], start: Callable[..., LLM], generate: Callable[..., Finished]
) -> None:
    install("zz-broken", source)
    with pytest.raises(PluginError, match=said):
        start(tiny)
    finished = generate(tiny)
    assert finished.code == 1
    assert "zz-broken" in finished.error


def test_a_plugin_that_has_the_name_of_another_is_refused(tiny: Path, install: Callable[..., None], start: Callable[..., LLM]) -> None:
    install("models", "", distribution="zz-impostor")
    with pytest.raises(PluginError, match=r"plugin 'models' \(zz-impostor .* cannot be loaded: octavo-models brings that name too"):
        start(tiny)
