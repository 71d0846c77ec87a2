import io
from pathlib import Path

import pytest

from octavo.cli.prompts import collect_prompts
from octavo.errors import ConfigurationError


def test_bytes_that_are_no_text_are_named_before_a_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = "é\udcff"
    with pytest.raises(ConfigurationError, match="the prompt is not text: what stands at byte 2 is no character"):
        collect_prompts([broken], None, raw=False)
    with pytest.raises(ConfigurationError, match="prompt 2 of 2 is not text"):
        collect_prompts(["a", broken], None, raw=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(broken))
    with pytest.raises(ConfigurationError, match="standard input is not text: what stands at byte 2"):
        collect_prompts(["-"], None, raw=False)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\xff"), encoding="utf-8"))
    with pytest.raises(ConfigurationError, match=r"standard input is not text in utf-8: .* at byte 1"):
        collect_prompts(["-"], None, raw=False)


def test_lines_of_a_file_follow_the_arguments(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("b\r\n\n é\n")
    assert collect_prompts(["a"], tmp_path / "p", raw=False) == ["a", "b", " é"]
