"""Every `softhit ...` command that the documents show runs, in the order shown, and exits 0."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def commands(text: str) -> list[str]:
    """Commands in inline code or at the start of a line of a block, placeholders in capitals left out."""
    found = re.findall(r"(?:`|^ *\$? ?)(softhit [a-z][^`\n#]*)", text, re.M)
    shown = [c.strip() for c in found if not re.search(r"\b[A-Z]{3,}\b|\.\.\.", c)]
    # a verb by itself that needs more is spoken of, not shown
    alone = {"softhit claims", "softhit demo", "softhit families", "softhit figures", "softhit policies"}
    return [c for c in shown if c in alone or any(word[0] != "-" for word in c.split()[2:])]


def documents() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


# docs/cli.md has its own test beside the command line's
WITH_COMMANDS = [path for path in documents() if path.name != "cli.md" and commands(path.read_text())]


@pytest.mark.slow
@pytest.mark.parametrize("document", WITH_COMMANDS, ids=lambda path: path.name)
def test_the_commands_of_a_document_run_in_its_order(document: Path, tmp_path: Path) -> None:
    for example in (ROOT / "examples").glob("*.py"):
        shutil.copy(example, tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    for command in commands(document.read_text()):
        done = subprocess.run(
            [sys.executable, "-m", "softhit_lab.cli", *shlex.split(command)[1:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_each_example_runs_from_any_folder(example: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_commands_are_found_in_inline_code_and_in_blocks() -> None:
    text = "Say `softhit policies`, `softhit info FILE`:\n\n    $ softhit ratio -K 8  # why\n\nnot softhit."
    assert commands(text) == ["softhit policies", "softhit ratio -K 8"]
