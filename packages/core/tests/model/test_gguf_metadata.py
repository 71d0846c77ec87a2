import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from octavo.errors import CheckpointError
from octavo.model.gguf_metadata import GGUFTensor, read_float32_tensor, read_gguf_metadata

VALUES: dict[str, Any] = {
    "general.architecture": "llama",
    "count": 7,
    "negative": -3,
    "ratio": 0.5,
    "flag": True,
    "words": ["ein", "zwei", "", "sníh ❄"],
    "numbers": [1, 2, 3],
    "empty": [],
    "nested": [["a", "b"], ["c"]],
}
TENSORS = {"a": ((2, 64), 3, bytes(2 * 2 * 20)), "b": ((5,), 0, struct.pack("<5f", 1, 2, 3, 4, 5))}


@pytest.mark.parametrize("version", [2, 3])
def test_values_of_every_kind_and_tensor_places_are_read(write_gguf: Callable[..., Path], version: int) -> None:
    path = write_gguf(VALUES, TENSORS, version=version)
    metadata = read_gguf_metadata(path)
    assert metadata.version == version
    assert metadata.values == VALUES
    start = metadata.tensors["a"].offset
    assert start % 32 == 0
    assert metadata.tensors["a"] == GGUFTensor(name="a", shape=(2, 64), type_number=3, type_name="Q4_1", offset=start, num_bytes=80)
    assert metadata.tensors["b"].offset + 20 == path.stat().st_size
    assert read_float32_tensor(metadata, "b") == (1.0, 2.0, 3.0, 4.0, 5.0)


def test_scalar_types_of_all_widths_are_read(tmp_path: Path) -> None:
    scalars = {0: ("B", 200), 1: ("b", -100), 2: ("H", 60000), 3: ("h", -30000), 10: ("Q", 2**63), 11: ("q", -(2**62)), 12: ("d", 0.1)}
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(scalars))
    for kind, (code, value) in scalars.items():
        data += struct.pack("<Q", 1) + chr(97 + kind).encode() + struct.pack(f"<I{code}", kind, value)
    (tmp_path / "m.gguf").write_bytes(data)
    assert list(read_gguf_metadata(tmp_path / "m.gguf").values.values()) == [value for _, value in scalars.values()]


def test_alignment_of_the_file_is_honoured(write_gguf: Callable[..., Path]) -> None:
    path = write_gguf({"general.alignment": 256}, TENSORS, alignment=256)
    metadata = read_gguf_metadata(path)
    assert metadata.alignment == 256
    assert all(tensor.offset % 256 == 0 for tensor in metadata.tensors.values())
    assert read_float32_tensor(metadata, "b")[4] == 5.0


@pytest.mark.parametrize("alignment", [0, 1, 2, 4, 24, "32"])
def test_alignments_at_which_nothing_can_lie_are_refused(write_gguf: Callable[..., Path], alignment: Any) -> None:
    with pytest.raises(CheckpointError, match=r"general\.alignment is .*, which is no power of two from 8 on"):
        read_gguf_metadata(write_gguf({"general.alignment": alignment}, TENSORS))


def test_every_truncation_is_refused_naming_the_file(write_gguf: Callable[..., Path], tmp_path: Path) -> None:
    whole = write_gguf(VALUES, TENSORS).read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in range(0, len(whole), 3):
        cut.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"cut\.gguf"):
            read_gguf_metadata(cut)


def test_missing_bytes_of_tensors_are_counted(write_gguf: Callable[..., Path]) -> None:
    path = write_gguf({"general.architecture": "llama"}, TENSORS)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(CheckpointError, match="7 are missing"):
        read_gguf_metadata(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a GGUF file"),
        (b"PK\x03\x04" + bytes(60), "not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "format version is 1"),
        (b"GGUF" + struct.pack("<IQQ", 9, 0, 0), "format version is 9"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "claims"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "claims"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**63) + bytes(20), "truncated"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 8, 2**61), "claims"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 5, 2**61), "claims"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IQ", 77, 0), "unknown value type 77"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2) + b"\xff\xfe" + struct.pack("<II", 4, 0), "not UTF-8"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 6,
            "nested",
        ),
    ],
)
def test_damage_is_refused_with_its_reason(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=message):
        read_gguf_metadata(path)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"t": ((4, 32), 99, bytes(64))}, "'t' has the unknown type 99"),
        ({"t": ((4, 33), 3, bytes(640))}, "rows of 33"),
        ({"t": ((1, 1, 1, 1, 32), 0, bytes(640))}, "5 dimensions"),
        ({"t": ((2**31, 2**31), 0, bytes(64))}, "missing"),
    ],
)
def test_bad_tensors_are_named(write_gguf: Callable[..., Path], tensors: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_gguf_metadata(write_gguf({}, tensors))


def test_overlapping_and_misaligned_tensors_are_refused(write_gguf: Callable[..., Path]) -> None:
    path = write_gguf({}, {"first": ((64,), 0, bytes(256)), "second": ((64,), 0, bytes(256))})
    whole = path.read_bytes()
    assert whole.count(struct.pack("<IQ", 0, 256)) == 1
    path.write_bytes(whole.replace(struct.pack("<IQ", 0, 256), struct.pack("<IQ", 0, 32)))
    with pytest.raises(CheckpointError, match="'first' and 'second' overlap"):
        read_gguf_metadata(path)
    path.write_bytes(whole.replace(struct.pack("<IQ", 0, 256), struct.pack("<IQ", 0, 257)))
    with pytest.raises(CheckpointError, match="no multiple of 32"):
        read_gguf_metadata(path)


def test_alignment_must_be_a_power_of_two(write_gguf: Callable[..., Path]) -> None:
    with pytest.raises(CheckpointError, match=r"general\.alignment is 24"):
        read_gguf_metadata(write_gguf({"general.alignment": 24}))


def test_only_float32_tensors_are_read_as_such(write_gguf: Callable[..., Path]) -> None:
    metadata = read_gguf_metadata(write_gguf({}, TENSORS))
    with pytest.raises(CheckpointError, match="Q4_1"):
        read_float32_tensor(metadata, "a")


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(4, 400), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, pack_gguf: Callable[..., bytes], damage: list[tuple[int, int]]
) -> None:
    data = bytearray(pack_gguf(VALUES, TENSORS))
    for position, byte in damage:
        data[position] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(data)
    try:
        read_gguf_metadata(path)
    except CheckpointError:
        event("refused")
    else:
        event("read")


def test_a_file_that_ends_behind_its_header_can_be_read_without_its_data(write_gguf: Callable[..., Path]) -> None:
    path = write_gguf(VALUES, TENSORS)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(CheckpointError, match="40 are missing"):
        read_gguf_metadata(path)
    metadata = read_gguf_metadata(path, with_data=False)
    assert metadata.values == VALUES
    with pytest.raises(CheckpointError, match="it ends before tensor 'b'"):
        read_float32_tensor(metadata, "b")
