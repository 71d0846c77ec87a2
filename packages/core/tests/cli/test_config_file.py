import os
from pathlib import Path
from typing import Any

import pytest

LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40)) + "max-num-seqs: *a39\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"max-num-seqs: " + b"9" * 400, "is too large"),
        (b"max-num-seqs: " + b"9" * 5000, "is not YAML that can be read"),
        (b"max-num-seqs: 2020-99-99\n", "is not YAML that can be read"),
        (b"[" * 5000, "is not YAML that can be read"),
        (b"a: \xff", "is not YAML that can be read"),
        (b"max-num-seqs: {a: 1}", "write it as on the command line"),
        (b"max-num-seqs: [[1]]", "write it as on the command line"),
        (b"? [a, b]\n: 1", "is not YAML that can be read"),
        (b"5: 1", "has the unknown key 5"),
        (b"k" * 900 + b": 1", "has the unknown key"),
        (b"#" * (1 << 20) + b"#", "more than 1,048,576 bytes"),
        (LAUGHS[LAUGHS.index("max") :].replace("*a39", "&a [x, *a]").encode(), "write it as on the command line"),
        (b"max-num-seqs: 1\nport: 2\nmax-num-seqs: 3", "gives 'max-num-seqs' more than once"),
        (b"max-num-seqs: 1\nmax_num_seqs: 3", "gives 'max-num-seqs' more than once"),
    ],
    ids=range(14),
)
def test_files_that_cannot_be_are_a_line(octavo: Any, fake_model: tuple[str, ...], tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(content)
    done = octavo("generate", "hello", *fake_model, "--config", str(file))
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert len(done.err) < 2000


def test_laughing_aliases_are_not_written_out(octavo: Any, fake_model: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(LAUGHS)
    done = octavo("generate", "hello", *fake_model, "--config", str(tmp_path / "c.yaml"))
    assert done.code == 2
    assert len(done.err) < 2000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_no_configuration(octavo: Any, fake_model: tuple[str, ...], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = octavo("generate", "hello", *fake_model, "--config", str(tmp_path / "pipe"))
    assert done.code == 2
    assert "no regular file" in done.err
