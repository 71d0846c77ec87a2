import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, processors

from octavo.errors import CheckpointError, InvalidRequestError
from octavo.model.source import ModelFiles
from octavo.text.tokenizer import Tokenizer, load_tokenizer


def backend_of(tokenizer: Tokenizer) -> Backend:
    """A copy, so that tests may change it."""
    return Backend.from_str(tokenizer._backend.to_str())


@pytest.fixture
def save(tmp_path: Path) -> Any:
    """`save(backend, config, template)` -> the tokenizer read back from files."""

    def save_and_load(backend: Backend | str | None, config: dict[str, Any] | None = None, template: str | None = None) -> Tokenizer:
        if backend is not None:
            (tmp_path / "tokenizer.json").write_text(backend if isinstance(backend, str) else backend.to_str())
        if config is not None:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        if template is not None:
            (tmp_path / "chat_template.jinja").write_text(template)
        return load_tokenizer(
            ModelFiles(
                name="m",
                format="safetensors",
                folder=tmp_path,
                weights=(),
                tokenizer=tmp_path / "tokenizer.json" if backend is not None else None,
                tokenizer_config=tmp_path / "tokenizer_config.json" if config is not None else None,
                chat_template=tmp_path / "chat_template.jinja" if template is not None else None,
            )
        )

    return save_and_load


TEXT = st.text(alphabet=st.one_of(st.sampled_from("hello wor\n123é😀"), st.characters(codec="utf-8")), max_size=30)


@settings(deadline=None)
@given(text=TEXT)
def test_decoding_undoes_encoding_and_agrees_with_the_library(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False)
    decoded = tokenizer.decode(ids, skip_special_tokens=False)
    assert decoded == text.replace("▁", " ") if tokenizer.strips_leading_space else decoded == text
    assert decoded == tokenizer._backend.decode(ids, skip_special_tokens=False)


@settings(deadline=None)
@given(ids=st.lists(st.integers(0, 300), max_size=30), skip=st.booleans())
def test_any_ids_of_a_byte_level_tokenizer_decode_as_the_library_does(byte_level: Tokenizer, ids: list[int], skip: bool) -> None:
    assert byte_level.decode(ids, skip_special_tokens=skip) == byte_level._backend.decode(ids, skip_special_tokens=skip)


def test_ids_beyond_the_vocabulary_are_no_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([10**6, 2**40, -1], skip_special_tokens=False) == ""
    assert tokenizer.token(10**6) is None


def test_a_batch_equals_its_texts(tokenizer: Tokenizer) -> None:
    texts = ["hello", "", "abc é", "<s>x"]
    for add in (True, False):
        assert tokenizer.encode_batch(texts, add_special_tokens=add) == [tokenizer.encode(text, add_special_tokens=add) for text in texts]
    assert tokenizer.encode_batch([], add_special_tokens=True) == []


def test_half_a_surrogate_pair_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidRequestError, match="surrogate"):
        tokenizer.encode("a\ud800b", add_special_tokens=True)


def test_files_give_the_same_ids_as_the_backend(save: Any, byte_level: Tokenizer) -> None:
    loaded = save(
        backend_of(byte_level), {"bos_token": "<|start|>", "eos_token": {"content": "<|end|>", "special": True}, "pad_token": None}
    )
    text = "<|start|>hello 123[tool]"
    assert loaded.encode(text, add_special_tokens=False) == byte_level.encode(text, add_special_tokens=False)
    assert (loaded.bos_token_id, loaded.eos_token_id, loaded.special_token_ids) == (1, 0, frozenset({0, 1}))
    assert loaded.special_tokens == {"bos_token": "<|start|>", "eos_token": "<|end|>"}
    assert loaded.vocab_size == byte_level.vocab_size


def test_bos_comes_from_the_post_processor_unless_the_configuration_says(save: Any, byte_level: Tokenizer) -> None:
    backend = backend_of(byte_level)
    names = {"bos_token": "<|start|>", "eos_token": "<|end|>"}
    assert save(backend, names).encode("ab", add_special_tokens=True) == byte_level.encode("ab", add_special_tokens=False)
    assert save(backend, names | {"add_bos_token": True, "add_eos_token": True}).encode("", add_special_tokens=True) == [1, 0]
    backend.post_processor = processors.TemplateProcessing(
        single="<|start|> $A <|end|>", pair="$A $B", special_tokens=[("<|start|>", 1), ("<|end|>", 0)]
    )
    assert save(backend, names).encode("", add_special_tokens=True) == [1, 0]
    assert save(backend, names).encode("ab", add_special_tokens=False) == byte_level.encode("ab", add_special_tokens=False)
    assert save(backend, names | {"add_bos_token": False}).encode("", add_special_tokens=True) == [0]


def test_a_text_that_begins_with_bos_gets_no_second_one(save: Any, byte_level: Tokenizer) -> None:
    loaded = save(backend_of(byte_level), {"bos_token": "<|start|>", "add_bos_token": True})
    assert loaded.encode("<|start|>ab", add_special_tokens=True) == loaded.encode("ab", add_special_tokens=True)


def test_truncation_and_padding_of_a_file_are_switched_off(save: Any, byte_level: Tokenizer) -> None:
    backend = backend_of(byte_level)
    backend.enable_truncation(3)
    backend.enable_padding(length=8)
    assert len(save(backend).encode("abababababab", add_special_tokens=True)) == 6


@pytest.mark.parametrize(
    ("config", "template", "expected"),
    [
        ({}, None, None),
        ({"chat_template": "field"}, None, "field"),
        ({"chat_template": "field"}, "file", "file"),
        ({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}, None, "d"),
    ],
)
def test_where_the_chat_template_comes_from(
    save: Any, byte_level: Tokenizer, config: dict[str, Any], template: str | None, expected: str | None
) -> None:
    assert save(backend_of(byte_level), config, template).chat_template == expected


def test_templates_without_a_default_are_refused(save: Any, byte_level: Tokenizer) -> None:
    with pytest.raises(CheckpointError, match="there are 'rag'"):
        save(backend_of(byte_level), {"chat_template": [{"name": "rag", "template": "r"}]})


def test_missing_and_damaged_files_are_named(save: Any) -> None:
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json"):
        save(None)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be read"):
        save("{}")


@pytest.mark.parametrize("decoder", [None, decoders.WordPiece(), decoders.Sequence([decoders.Replace("x", "y"), decoders.CTC()])])
def test_decoders_that_are_not_known_are_refused(save: Any, byte_level: Tokenizer, decoder: Any) -> None:
    backend = backend_of(byte_level)
    backend.decoder = decoder
    with pytest.raises(CheckpointError, match="decoder"):
        save(backend)


def test_metaspace_decoders_are_known(save: Any, sentence_piece: Tokenizer) -> None:
    backend = backend_of(sentence_piece)
    backend.decoder = decoders.Sequence([decoders.Metaspace(prepend_scheme="first"), decoders.ByteFallback(), decoders.Fuse()])
    loaded = save(backend)
    assert loaded.decode(loaded.encode("hello wor", add_special_tokens=False), skip_special_tokens=True) == "hello wor"


def template_without(id_of_missing: str) -> dict[str, Any]:
    single = [{"SpecialToken": {"id": id_of_missing, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": {}}


@pytest.mark.parametrize(
    "changes",
    [
        {"post_processor": template_without("[X]")},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
        {"normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "x"}},
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}},
        {"model": {"type": "Unigram", "unk_id": None, "vocab": [["zz", -1.0]], "byte_fallback": False}},
        {"version": "9.0"},
    ],
)
def test_a_file_that_the_library_fails_at_is_refused_while_loading(save: Any, byte_level: Tokenizer, changes: dict[str, Any]) -> None:
    contents = json.loads(backend_of(byte_level).to_str()) | changes
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        save(json.dumps(contents))


def test_other_threads_run_while_a_long_text_is_tokenized(byte_level: Tokenizer) -> None:
    worker = threading.Thread(target=byte_level.encode, args=("the end of the world " * 50_000,), kwargs={"add_special_tokens": True})
    start = latest = time.perf_counter()
    longest_pause_s = 0.0
    worker.start()
    while worker.is_alive():
        time.sleep(0)
        now = time.perf_counter()
        longest_pause_s, latest = max(longest_pause_s, now - latest), now
    assert longest_pause_s < (latest - start) / 2


@pytest.mark.parametrize("num_texts", [1, 3])
def test_a_text_that_the_library_fails_at_is_refused(save: Any, byte_level: Tokenizer, num_texts: int) -> None:
    contents = json.loads(backend_of(byte_level).to_str())
    contents["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated", "invert": False}
    tokenizer = save(json.dumps(contents))
    with pytest.raises(InvalidRequestError, match="tokenizer cannot encode") as caught:
        tokenizer.encode_batch(["x" * 40] * num_texts, add_special_tokens=True)
    assert caught.value.param == "prompt"
    assert tokenizer.encode("hello", add_special_tokens=True)


@pytest.mark.parametrize("name", [["default"], {"a": 1}, 5, None])
def test_a_template_whose_name_is_no_text_is_none(save: Any, byte_level: Tokenizer, name: Any) -> None:
    with pytest.raises(CheckpointError, match="named 'default'"):
        save(backend_of(byte_level), {"chat_template": [{"name": name, "template": "x"}]})
    named = [{"name": name, "template": "x"}, {"name": "default", "template": "y"}]
    assert save(backend_of(byte_level), {"chat_template": named}).chat_template == "y"
