"""What the documents show can be run: each Python block prints what the block after it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def programs(text: str) -> list[tuple[str, str | None]]:
    """Python blocks in order, each with the text block that follows it directly (its output), if any."""
    found: list[tuple[str, str | None]] = []
    end = 0
    for match in BLOCK.finditer(text):
        kind, body = match.groups()
        if kind == "python":
            found.append((body, None))
        elif kind == "text" and found and len(text[end : match.start()].strip()) <= len("prints"):
            found[-1] = (found[-1][0], body)
        end = match.end()
    return found


def run(program: str, folder: Path) -> str:
    """Run a block as a reader would: saved to a file, in a process of its own, outside the clone."""
    file = folder / "shown.py"
    file.write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, file.name], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


SHOWN = [(path.name, *shown) for path in documents() for shown in programs(path.read_text())]


@pytest.mark.parametrize(
    ("name", "program", "output"), SHOWN, ids=[f"{s[0]}-{n}" for n, s in enumerate(SHOWN)]
)
def test_a_shown_program_prints_what_the_document_says(
    name: str, program: str, output: str | None, tmp_path: Path
) -> None:
    printed = run(program, tmp_path)
    if output is not None:
        assert printed.split() == output.split(), f"{name} shows other output"


def test_links_inside_the_repository_lead_somewhere() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in documents()
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())
        if not (path.parent / target).exists()
    ]
    assert broken == []


def test_a_program_is_paired_with_the_output_right_below_it_only(tmp_path: Path) -> None:
    first = "```python\nprint(1)\n```\n\nprints\n\n```text\n1\n```\n"
    second = "```python\nx = 2\n```\nFar below:\n```text\n9\n```\n"
    text = first + second
    assert programs(text) == [("print(1)\n", "1\n"), ("x = 2\n", None)]
    assert run("print(3)", tmp_path) == "3\n"
