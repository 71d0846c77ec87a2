"""What decode steps take is kept between starts, and damage of the file is no more than a measurement that is lost."""

import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from octavo.config.step_times import FILE, MAX_BYTES, StepTimes, keep_step_times, read_step_times, step_times_key
from octavo.model.config import ModelConfig, RopeConfig

TIMES = StepTimes(written={1: 0.0129, 64: 0.07}, compiled={1: 0.0151, 64: 0.0741})
MODEL = ModelConfig(
    architecture="llama", vocab_size=1000, hidden_size=16, intermediate_size=16, num_layers=1, num_heads=2, num_kv_heads=2, head_size=8,
    rms_norm_eps=1e-5, rope=RopeConfig(theta=1e4, dim=8), max_position=512, tie_embeddings=True,
)  # fmt: skip


def key(model: ModelConfig = MODEL, cpu: str = "CPU", num_threads: int = 2, dtype: str = "bfloat16") -> str:
    return step_times_key(model, cpu=cpu, num_threads=num_threads, dtype=dtype)


def test_times_come_back_beside_others_in_a_folder_that_was_not_there(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    assert read_step_times(folder) == {}
    other = replace(TIMES, written={1: 1.0}, compiled={1: 2.0})
    keep_step_times(folder, "a", TIMES)
    keep_step_times(folder, "b", TIMES)
    keep_step_times(folder, "a", other)
    assert read_step_times(folder) == {"a": other, "b": TIMES}
    assert [file.name for file in folder.iterdir()] == [FILE]


@pytest.mark.parametrize(
    ("compiled", "preferred"),
    [({1: 0.02, 64: 0.08}, False), ({1: 0.01, 64: 0.06}, True), ({1: 0.01, 64: 0.1}, False), ({1: 0.006, 64: 0.1}, True)],
)
def test_the_faster_is_the_one_that_wins_more_than_it_loses(compiled: dict[int, float], preferred: bool) -> None:
    assert replace(TIMES, compiled=compiled).prefers_compiled is preferred


def test_the_text_has_both_figures_of_every_step() -> None:
    assert str(TIMES) == (
        "a decode step takes here: 12.9 ms as written and 15.1 ms compiled with 1 running, "
        "70.0 ms as written and 74.1 ms compiled with 64 running"
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"a": {"written": {"one": 1}, "compiled": {}}}', b"\xff", b'{"\xff": {}}', b'{"k":' * 50_000, b" " * (MAX_BYTES + 1)],
)
def test_a_damaged_file_counts_as_none_and_is_replaced(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert read_step_times(tmp_path) == {}
    assert "cannot be read" in caplog.text
    keep_step_times(tmp_path, "a", TIMES)
    assert read_step_times(tmp_path) == {"a": TIMES}


@pytest.mark.parametrize(
    "times",
    [
        StepTimes(written={}, compiled={}),
        StepTimes(written={1: 1.0}, compiled={2: 1.0}),
        StepTimes(written={1: 0.0}, compiled={1: 1.0}),
        StepTimes(written={1: 1.0}, compiled={1: -1.0}),
        StepTimes(written={1: 1e300}, compiled={1: 1e-300}),
        StepTimes(written={-5: 1.0}, compiled={-5: 1.0}),
        StepTimes(written=dict.fromkeys(range(1, 100), 1.0), compiled=dict.fromkeys(range(1, 100), 1.0)),
    ],
)
def test_times_that_no_clock_shows_are_left_out(tmp_path: Path, times: StepTimes) -> None:
    keep_step_times(tmp_path, "odd", times)
    keep_step_times(tmp_path, "sound", TIMES)
    assert read_step_times(tmp_path) == {"sound": TIMES}


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        keep_step_times(tmp_path / "file" / "folder", "a", TIMES)
    assert "cannot be kept" in caplog.text


def test_what_cannot_be_replaced_leaves_no_file_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).mkdir()
    with caplog.at_level(logging.WARNING):
        keep_step_times(tmp_path, "a", TIMES)
    assert "cannot be kept" in caplog.text
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


def test_a_pipe_in_its_place_holds_nobody_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(tmp_path / FILE)
    with caplog.at_level(logging.WARNING):
        assert read_step_times(tmp_path) == {}
    assert "cannot be read" in caplog.text


def test_the_key_follows_what_decides_the_time_and_nothing_else() -> None:
    same = [
        key(replace(MODEL, rope=RopeConfig(theta=5e5, dim=8))), key(replace(MODEL, eos_token_ids=(2,), stored_dtype="quantized")),
        key(replace(MODEL, max_position=64)),
    ]  # fmt: skip
    others = [key(replace(MODEL, num_layers=2)), key(cpu="another"), key(num_threads=4), key(dtype="float32")]
    assert set(same) == {key()}
    assert len({key(), *others}) == 5
