# Every target is a step of CI under the same name. `uv run --no-sync just` lists them.

export UV_NO_PROGRESS := "1"

_default:
    @just --list

# Ruff: lint and format
lint:
    uv run --no-sync ruff check .
    uv run --no-sync ruff format --check .

# Mend what ruff can mend
format:
    uv run --no-sync ruff check --fix .
    uv run --no-sync ruff format .

# Strict types of every package
types:
    uv run --no-sync mypy

# Who may import whom
contracts:
    uv run --no-sync lint-imports

# The C++ library is built and loads
native:
    uv run --no-sync python -c "from octavo_kernels.cpu.library import load_library; assert load_library() is not None"

# The README's test command
test:
    uv run pytest

# The full matrices, and the reference's ids made anew (needs the `reference` group: uv sync --group reference)
test-slow:
    uv run --group reference pytest -n 0 -m slow -s tests packages plugins

# Wheels of every member, each imported in an environment of its own outside the workspace
wheels:
    bash .ci/wheels

# Without a compiler the kernels install as a pure wheel and `sdpa` serves
pure:
    bash .ci/pure

# Move the date that pins every version to today
lock:
    sed -i "s/^exclude-newer = .*/exclude-newer = \"$(date -u +%Y-%m-%dT00:00:00Z)\"/" pyproject.toml
    uv lock --upgrade

# All of CI
ci: lint types contracts native test wheels pure
