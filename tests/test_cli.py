"""The program as users start it, with the model that comes with the checkout."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

QUESTION = "What is the capital of France?"


def octavo(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the program with all the threads that it would have for a user."""
    program = Path(sys.executable).parent / "octavo"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    return subprocess.run(
        [str(program), *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=300, env=environment
    )


def loaded_modules(statement: str) -> set[str]:
    """Top-level packages that a statement brings into a fresh interpreter."""
    program = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split())


def test_a_question_is_answered_on_stdout_alone() -> None:
    done = octavo("generate", QUESTION)
    assert (done.returncode, "Paris" in done.stdout) == (0, True), done.stderr
    assert done.stdout.count("\n") == 1


def test_prompts_from_stdin_and_the_command_line_are_answered_as_json_lines() -> None:
    done = octavo("generate", "--json", "--max-tokens", "12", QUESTION, "-", stdin=QUESTION + "\n")
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["text"] == second["text"]
    assert "Paris" in first["text"]
    assert first["usage"]["total_tokens"] == first["usage"]["prompt_tokens"] + len(first["token_ids"])


@pytest.mark.parametrize("statement", ["import octavo", "import octavo; octavo.LLM", "import octavo.engine.build"])
def test_the_core_brings_neither_torch_nor_transformers(statement: str) -> None:
    assert not {"torch", "transformers", "safetensors"} & loaded_modules(statement)


def test_importing_octavo_brings_no_library_at_all() -> None:
    assert not {"numpy", "msgspec", "tokenizers", "jinja2", "typer", "pluggy"} & loaded_modules("import octavo")
