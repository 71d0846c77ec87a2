import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import CheckpointError
from octavo.model.folder import inspect_path
from octavo.model.foreign import MAX_TEXT_BYTES, ForeignFields, open_file, read_bytes, read_json_object, read_text_file
from octavo.model.huggingface_config import from_huggingface

HUGE = 10**400
ENDLESS = Path("/dev/zero")


def fields(**values: Any) -> ForeignFields:
    return ForeignFields(values, "config.json")


@pytest.mark.parametrize("value", [0, -1, 2**31, HUGE, 1.0, True, "1"])
def test_sizes_are_positive_and_within_reason(value: object) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json: size is .*, but must be") as problem:
        fields(size=value).positive_int("size")
    assert len(str(problem.value)) < 400


@pytest.mark.parametrize("value", [0, -1.0, 1e-31, 1e31, 1e308, HUGE, float("inf"), float("nan"), "1"])
def test_numbers_are_positive_and_fit_float32(value: object) -> None:
    with pytest.raises(CheckpointError, match="a positive number from 1e-30 to 1e\\+30"):
        fields(theta=value).positive_float("theta")
    with pytest.raises(CheckpointError, match="a list of 2 positive numbers"):
        fields(factors=[1.0, value]).positive_floats("factors", 2)


def test_counts_and_ids_are_within_reason() -> None:
    assert fields(n=0).count("n") == 0
    for value in (-1, HUGE):
        with pytest.raises(CheckpointError, match="n is"):
            fields(n=value).count("n")
    assert fields(eos=[2**32 - 1, -1]).token_ids("eos") == (2**32 - 1,)
    with pytest.raises(CheckpointError, match="a token id"):
        fields(eos=[2, HUGE]).token_ids("eos")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 2147483648}, "num_hidden_layers is 2147483648, but must be at most 10,000"),
        ({"num_hidden_layers": 10_001}, "at most 10,000"),
        ({"intermediate_size": 2**63}, "intermediate_size"),
        ({"vocab_size": HUGE}, "vocab_size"),
        ({"rope_theta": HUGE}, "rope_theta"),
        ({"rms_norm_eps": HUGE}, "rms_norm_eps"),
        ({"partial_rotary_factor": 1e308}, "partial_rotary_factor"),
        ({"partial_rotary_factor": 1e29}, "cannot be rotated in pairs"),
        ({"partial_rotary_factor": 1e-9}, "0 of 16 dimensions of a head cannot be rotated"),
        ({"rope_scaling": {"type": "linear", "factor": 1e308}}, "factor is 1e\\+308"),
        ({"rope_scaling": {"type": "linear", "factor": 1e29}}, "stretched by 1e\\+29 is not between"),
        ({"rope_scaling": {"type": "linear", "factor": 1e-308}}, "factor is 1e-308"),
        ({"rope_scaling": {"type": "dynamic", "factor": 1e-20}}, "stretched by 1e-20 is not between"),
        ({"rope_scaling": {"type": "yarn", "factor": 1e-5}}, "stretched by 1e-05 is not between"),
        ({"hidden_act": "x" * 10**6}, "hidden_act 'xxx"),
        ({"rope_scaling": {"type": "x" * 10**6}}, "rotary scaling 'xxx"),
    ],
    ids=range(16),
)
def test_absurd_shapes_are_refused_at_once(huggingface_config: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as problem:
        from_huggingface(huggingface_config | changes)
    assert len(str(problem.value)) < 500


@pytest.mark.parametrize("read", [open_file, read_text_file, read_json_object])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    for path in (tmp_path / "pipe.gguf", ENDLESS, tmp_path):
        with pytest.raises(CheckpointError, match="cannot be read: it is no regular file"):
            read(path)
    with pytest.raises(CheckpointError, match="cannot be read: it is no regular file"):
        inspect_path(tmp_path / "pipe.gguf", name="pipe.gguf")


def test_files_are_read_up_to_a_size(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"abc")
    assert read_bytes(file, max_bytes=3) == b"abc"
    with pytest.raises(CheckpointError, match="more than 2 bytes"):
        read_bytes(file, max_bytes=2)
    file.write_bytes(b"a" * (MAX_TEXT_BYTES + 1))
    with pytest.raises(CheckpointError, match="more than 4,194,304 bytes"):
        read_text_file(file)
    file.write_bytes(b"a\xff")
    with pytest.raises(CheckpointError, match="is not UTF-8: invalid start byte at byte 1"):
        read_text_file(file)
    with pytest.raises(CheckpointError, match="is no path"):
        open_file(Path("a\0b"))
