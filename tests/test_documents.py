"""What the documents show can be run: each Python block prints what the block after it says."""

import contextlib
import io
import re
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


def run(program: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(program, "document", "exec"), {"__name__": "__main__"})
    return output.getvalue()


def documents() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


SHOWN = [(path.name, *shown) for path in documents() for shown in programs(path.read_text())]


@pytest.mark.parametrize(
    ("name", "program", "output"), SHOWN, ids=[f"{s[0]}-{n}" for n, s in enumerate(SHOWN)]
)
def test_a_shown_program_prints_what_the_document_says(
    name: str, program: str, output: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = run(program)
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


def test_a_program_is_paired_with_the_output_right_below_it_only() -> None:
    first = "```python\nprint(1)\n```\n\nprints\n\n```text\n1\n```\n"
    second = "```python\nx = 2\n```\nFar below:\n```text\n9\n```\n"
    text = first + second
    assert programs(text) == [("print(1)\n", "1\n"), ("x = 2\n", None)]
    assert run("print(3)") == "3\n"
