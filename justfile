# Everything the project asks of a change, by name. CI runs `just check` and nothing else.

set shell := ["bash", "-euo", "pipefail", "-c"]

# The tools stand beside the `just` that the dev extra installs; another `just` uses the folder that `setup` makes.
beside := parent_directory(just_executable())
bin := if path_exists(beside / "lint-imports") == "true" { beside } else { justfile_directory() / ".venv" / "bin" }
export PATH := bin + ":" + env("PATH")

# List the recipes
default:
    @just --list

# Make .venv with the project and its tools in it
setup:
    python3 -m venv .venv
    .venv/bin/pip install -q -e '.[dev]'

# Format, and repair what the linter can repair
fmt:
    ruff check --fix-only --quiet
    ruff format

# Lint and formatting, changing nothing
lint:
    ruff check
    ruff format --check

# Types
types:
    mypy

# Which room may import which
imports:
    lint-imports --no-logo

# Tests, e.g. `just test tests/core -k lease`
test *args:
    pytest {{ args }}

# What the documents say, against the code; README's tour is run
docs *args:
    pytest tests/docs {{ args }}

# All tests, with coverage: a floor for the whole, and every line and branch of core/ and wire/
coverage:
    coverage erase
    pytest -n auto --dist worksteal --cov --cov-report= --cov-fail-under=0
    coverage report --fail-under=100 --include='*/batonpass/core/*,*/batonpass/wire/*'
    coverage report

# Everything: lint, types, imports, then all tests (those of the documents are among them) with coverage
check: lint types imports coverage

# Crowds around real servers for a minute each, on both databases, and their figures: some ten minutes
soak *args:
    BATON_SOAK=whole pytest -s -p no:xdist tests/soak tests/races/test_tasks.py {{ args }}

# Ten minutes of workers killed at random, on each database: every item comes to an end once; `BATON_SOAK_SEED=7 just chaos`
chaos:
    BATON_SOAK=whole BATON_SOAK_S=600 pytest -s -p no:xdist tests/soak/test_workers.py

# Every agent program in every case, live, and the table of what was seen: some ten minutes; installs what is missing
harness-all:
    python -m batonpass.testing.matrix docs/reference/harnesses-tried.md

# Serve, e.g. `just serve --port 7777`
serve *args:
    baton serve {{ args }}

# Measure; docs/explanation/performance.md says what and beside which limit
bench *args:
    python -m bench {{ args }}

# Build the source archive and the wheel from a checked tree, into dist/
release: check
    git diff --quiet HEAD || { echo "there are uncommitted changes"; exit 1; }
    rm -rf dist
    python -m build
