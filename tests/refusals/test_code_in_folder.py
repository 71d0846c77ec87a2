"""Nothing that comes with a model is run: no pickle, no module that `auto_map` names."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from octavo import LLM
from octavo.errors import CheckpointError, ConfigurationError
from octavo_models.testing import write_tiny_gguf
from tests.refusals.engine import FLAGS, Finished, answer


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """What code of a model would leave."""
    return tmp_path / "trace"


def test_the_bomb_is_live(trace: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(trace)))
    assert trace.exists()


def take_weights_away(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "weights.pkl", "model.ckpt"])
def test_pickled_weights_are_refused_and_stay_closed(
    copied: Path, trace: Path, name: str, start: Callable[..., LLM], generate: Callable[..., Finished]
) -> None:
    take_weights_away(copied)
    (copied / name).write_bytes(pickle.dumps(Bomb(trace)))
    for model in (copied, copied / name):
        with pytest.raises(CheckpointError, match="loading a pickle runs whatever code is in it: convert the model to safetensors"):
            start(model)
        assert name in generate(model).error
    assert not trace.exists()


def test_safetensors_are_preferred_to_pickles_beside_them(copied: Path, trace: Path, tiny: Path, tokens: Callable[..., list[int]]) -> None:
    for name in ("pytorch_model.bin", "consolidated.00.pth", "training_args.bin", "optimizer.pt"):
        (copied / name).write_bytes(pickle.dumps(Bomb(trace)))
    assert tokens(copied) == tokens(tiny)
    assert not trace.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "model.gguf"])
def test_a_pickle_under_another_name_is_refused_and_stays_closed(copied: Path, trace: Path, name: str, start: Callable[..., LLM]) -> None:
    take_weights_away(copied)
    (copied / name).write_bytes(pickle.dumps(Bomb(trace)))
    with pytest.raises(CheckpointError, match=name):
        start(copied)
    assert not trace.exists()


def test_an_index_that_names_a_pickle_is_refused(copied: Path, trace: Path, start: Callable[..., LLM]) -> None:
    take_weights_away(copied)
    (copied / "model-00001-of-00001.safetensors").write_bytes(b"")
    (copied / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(trace)))
    (copied / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"model.norm.weight": "pytorch_model.bin"}}))
    with pytest.raises(CheckpointError, match=r"'pytorch_model\.bin', which is no safetensors file"):
        start(copied)
    assert not trace.exists()


def plant_code(folder: Path, trace: Path) -> None:
    """A module that leaves a trace when it is imported, named wherever a model may name one."""
    (folder / "custom.py").write_text(f"import os\nos.mkdir({str(trace)!r})\nclass Custom: pass\n")
    for module in ("configuration_custom", "modeling_custom", "tokenization_custom", "processing_custom", "__init__"):
        (folder / f"{module}.py").write_text("from . import custom\n")
    references = {
        "config.json": {"auto_map": {"AutoConfig": "custom.Custom", "AutoModelForCausalLM": "custom.Custom"}},
        "tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["custom.Custom", None]}, "tokenizer_class": "Custom"},
        "generation_config.json": {"auto_map": {"AutoGenerationConfig": "custom.Custom"}, "custom_generate": "custom.py"},
        "preprocessor_config.json": {"auto_map": {"AutoProcessor": "custom.Custom"}},
    }
    for name, fields in references.items():
        path = folder / name
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(known | fields))


def test_code_of_a_model_that_octavo_knows_is_left_alone(copied: Path, trace: Path, tiny: Path, tokens: Callable[..., list[int]]) -> None:
    plant_code(copied, trace)
    assert tokens(copied) == tokens(tiny)
    assert not trace.exists()


@pytest.mark.parametrize("missing", ["", "num_attention_heads"])
def test_a_model_that_octavo_does_not_know_is_refused_whatever_code_it_brings(
    copied: Path, trace: Path, missing: str, start: Callable[..., LLM], generate: Callable[..., Finished]
) -> None:
    plant_code(copied, trace)
    path = copied / "config.json"
    fields = json.loads(path.read_text()) | {"model_type": "custom"}
    fields.pop(missing, None)
    path.write_text(json.dumps(fields))
    with pytest.raises(ConfigurationError, match=r"architecture 'custom': there are .*llama.*octavo_register_models.*never run"):
        start(copied)
    finished = generate(copied)
    assert finished.code == 2
    assert "no model of architecture 'custom'" in finished.error
    assert not trace.exists()


def test_the_template_of_a_model_reaches_nothing_but_its_messages(copied: Path, trace: Path, start: Callable[..., LLM]) -> None:
    source = "{{ ''.__class__.__mro__[1].__subclasses__() }}{{ cycler.__init__.__globals__.os.mkdir('" + str(trace) + "') }}"
    (copied / "chat_template.jinja").write_text(source)
    llm = start(copied)
    with pytest.raises(ValueError, match="the chat template refuses these messages"):
        llm.generate([{"role": "user", "content": "hello"}], use_tqdm=False)
    assert not trace.exists()
    assert len(answer(llm)) == 6


def test_a_gguf_file_brings_no_code(tmp_path: Path, trace: Path) -> None:
    folder = tmp_path / "gguf"
    folder.mkdir()
    write_tiny_gguf(folder / "tiny.gguf")
    plant_code(folder, trace)
    with LLM(folder, load_format="gguf", **FLAGS) as llm:
        assert len(answer(llm)) == 6
    assert not trace.exists()
