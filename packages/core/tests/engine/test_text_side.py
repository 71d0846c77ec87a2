from pathlib import Path

import pytest

from octavo.config.options import EngineOptions
from octavo.engine.text_side import find_text_side
from octavo.errors import ConfigurationError
from octavo.testing.served import write_fake_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_fake_model(tmp_path)


def test_the_template_is_the_models_unless_a_file_has_another(model: Path, tmp_path: Path) -> None:
    own = find_text_side(EngineOptions(model=str(model)), plugins_allow=()).chat_template
    assert "assistant" in str(own.source)
    (tmp_path / "t.jinja").write_text("{{ messages[0].content }}!")
    other = find_text_side(EngineOptions(model=str(model), chat_template=str(tmp_path / "t.jinja")), plugins_allow=()).chat_template
    assert other.render([{"role": "user", "content": "hello"}]) == "hello!"


def test_a_template_that_cannot_be_read_is_named(model: Path, tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_bytes(b"\xff")
    for name, problem in (("none", "cannot be read"), ("t.jinja", "is not UTF-8")):
        with pytest.raises(ConfigurationError, match=problem):
            find_text_side(EngineOptions(model=str(model), chat_template=str(tmp_path / name)), plugins_allow=())


def test_a_file_that_is_no_template_is_refused_and_a_broken_one_of_the_model_is_a_warning(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "t.jinja").write_text("{% for %}")
    with pytest.raises(ConfigurationError, match=r"t\.jinja': the chat template cannot be compiled"):
        find_text_side(EngineOptions(model=str(model), chat_template=str(tmp_path / "t.jinja")), plugins_allow=())
    (model / "chat_template.jinja").write_text("{% for %}")
    assert find_text_side(EngineOptions(model=str(model)), plugins_allow=()).chat_template.source == "{% for %}"
    assert "conversations are refused: the chat template cannot be compiled" in caplog.text
