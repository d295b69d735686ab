"""Which check executes each step of a written proof, and which steps have none?

A proof is a Markdown file whose numbered items are its steps. A step ends with what executes it, one or more
of ``[check: C9.tight]``, ``[smt: C9-phase]``, ``[coq: C9.v phase_bound]``. A reference to nothing is a fault.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from softhit.errors import UnknownName
from theory.registry import claim
from theory.smt import scripts

__all__ = ["Step", "faults", "steps"]

_STEP = re.compile(r"^(\d+)\.\s")
_REFERENCE = re.compile(r"\[(check|smt|coq):\s*([^\]]+)\]")
_COQ = r"^\s*(?:Theorem|Lemma|Corollary|Example|Fact|Proposition|Remark)\s+{}\b"


@dataclass(frozen=True)
class Step:
    """A numbered step of a written proof, and what it refers to as (kind, name)."""

    file: str
    number: str
    references: tuple[tuple[str, str], ...]


def steps(path: Path) -> Iterator[Step]:
    """Yield the numbered steps of a written proof: items at the left margin, to the next item or heading."""
    number, text = "", ""
    for line in [*path.read_text(encoding="utf-8").splitlines(), "#"]:
        match = _STEP.match(line)
        if match or line.startswith("#"):
            if number:
                found = tuple((kind, name.strip()) for kind, name in _REFERENCE.findall(text))
                yield Step(path.name, number, found)
            number, text = (match[1], "") if match else ("", "")
        text += line + " "


def _fault(kind: str, name: str, folder: Path) -> str | None:
    if kind == "check":
        id_, _, check = name.partition(".")
        try:
            claim(id_).check(check)
        except UnknownName as error:
            return str(error)
    elif kind == "smt":
        if f"{name}.smt2" not in scripts():
            return f"no claim states the script {name}"
    else:
        file, _, theorem = name.partition(" ")
        if not (folder / file).is_file():
            return f"there is no {file}"
        text = (folder / file).read_text(encoding="utf-8")
        if not theorem or not re.search(_COQ.format(re.escape(theorem)), text, re.MULTILINE):
            return f"{file} states no {theorem or 'theorem of no name'}"
    return None


def faults(folder: Path) -> list[str]:
    """Return what is wrong with a folder's written proofs: steps without a check, references to nothing."""
    found = []
    for path in sorted(folder.glob("[A-H][0-9]*.md")):
        all_steps = list(steps(path))
        if not all_steps:
            found.append(f"{path.name}: no numbered step")
        for step in all_steps:
            where = f"{step.file}, step {step.number}"
            if not step.references:
                found.append(f"{where}: nothing executes it")
            for kind, name in step.references:
                if fault := _fault(kind, name, folder):
                    found.append(f"{where}: [{kind}: {name}]: {fault}")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print the faults of a folder of proofs, and how many steps were seen."""
    (folder,) = map(Path, sys.argv[1:] if arguments is None else arguments)
    files = sorted(folder.glob("[A-H][0-9]*.md"))
    found = faults(folder)
    count = sum(1 for path in files for _ in steps(path))
    print("\n".join(found) or f"{count} steps of {len(files)} proofs, each with what executes it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
