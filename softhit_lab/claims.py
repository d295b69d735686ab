"""Show the registry of claims: the table, one claim with its checks run and its figure drawn."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from softhit.errors import NotCertified
from softhit_lab.cells import write_text
from softhit_lab.claim_figures import draw_claim
from softhit_lab.figures import save
from softhit_lab.screen import check_place, console, write_sheet
from softhit_lab.tables import Sheet
from theory.claim import Claim, Figure, Refuted, Survived
from theory.registry import claim as find_claim
from theory.registry import claim_module, claims

__all__ = ["claims_markdown", "claims_sheet", "draw_claims", "explain_claim", "print_claims"]

HEAD = ("id", "statement", "status", "evidence", "where it breaks")
_SHOWN = 24


def _count(many: Sequence[object], what: str) -> str:
    return f"{len(many)} {what}{'s' if len(many) != 1 else ''}"


def evidence(claim: Claim) -> str:
    """Say in a line what executes a claim.

    >>> evidence(find_claim("A2"))
    '3 checks, 3 mutants, A2.md'
    """
    parts = [_count(claim.checks, "check"), _count(claim.mutants, "mutant"), *claim.proofs]
    return ", ".join(parts) if claim.checks else "none yet"


def claims_sheet() -> Sheet:
    """Return the table of all claims, for the terminal, for Markdown and for csv."""
    rows = [(c.id, c.statement, c.status, evidence(c), c.breaks) for c in claims()]
    note = "softhit claims ID explains one; --check runs its checks, --mutants its mutants"
    return Sheet("claims", HEAD, rows, note)


def claims_markdown() -> str:
    """Return the table as the README shows it: without the evidence, each id a link to its module."""
    lines = ["| id | statement | status | where it breaks |", "|---|---|---|---|"]
    for c in claims():
        module = claim_module(c.id).__name__.replace(".", "/")
        cells = (f"[{c.id}]({module}.py)", c.statement, c.status, c.breaks)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def print_claims(output: Path | None) -> None:
    """Print the registry of claims; write it as csv, or as Markdown if the file is called so."""
    check_place(output)
    sheet = claims_sheet()
    sheet.show(console(), left=True)
    if output is not None and output.suffix == ".md":
        write_text(claims_markdown(), output)
    else:
        write_sheet(sheet, output)


def explain_claim(name: str, output: Path | None, check: bool, mutants: bool, slow: bool) -> None:
    """Print one claim: its statement and proof sketch, its checks, run or not, and its figure.

    Raises
    ------
    NotCertified
        A check failed or a mutant survived.
    """
    claim = find_claim(name)
    screen = console()
    module = claim_module(name)
    screen.print(f"{claim.id}  {claim.title}  ({claim.status})", style="bold", markup=False)
    for label, text in (
        ("states", claim.statement),
        ("variant", claim.variant),
        ("source", claim.source),
        ("scope", claim.scope),
        ("breaks", claim.breaks),
        ("proofs", ", ".join(f"proofs/{file}" for file in claim.proofs)),
    ):
        if text:
            screen.print(f"{label:8}{text}", markup=False, soft_wrap=True)
    if module.__doc__:
        screen.print("\n" + inspect.cleandoc(module.__doc__) + "\n", markup=False, soft_wrap=True)
    if claim.figure is not None:
        _show_figure(claim, claim.figure, output)
    failed = []
    for line, bad in _results(claim, check, mutants, slow):
        screen.print(line, markup=False, soft_wrap=True)
        failed += [bad] if bad else []
    if failed:
        raise NotCertified(f"claim {claim.id}: {'; '.join(failed)}")


def _results(claim: Claim, check: bool, mutants: bool, slow: bool) -> Iterator[tuple[str, str]]:
    """Yield a line for each check and mutant, and the name of one that failed."""
    for part in claim.checks:
        result, bad = "", ""
        if check or mutants:
            if missing := part.missing():
                result = f"skipped: {missing}"
            elif part.slow and not slow:
                result = "skipped: slow (--slow runs it)"
            else:
                try:
                    part.run()
                    result = "holds"
                except Refuted as error:
                    result, bad = f"FAILS: {error}", part.name
        yield f"check   {claim.id}.{part.name}: {part.says}" + (f"  -> {result}" if result else ""), bad
    for mutant in claim.mutants:
        of = claim.check(mutant.check)
        result, bad = "", ""
        if mutants and not of.missing() and (slow or not of.slow):
            try:
                result = f"killed: {claim.kill(mutant)}"
            except Survived as error:
                result, bad = f"SURVIVES: {error}", mutant.name
        text = f"mutant  {mutant.name} (of {mutant.check}): {mutant.note}"
        yield text + (f"  -> {result}" if result else ""), bad


def _show_figure(claim: Claim, figure: Figure, output: Path | None) -> None:
    screen = console()
    rows = figure.rows()
    if output is not None:
        command = f"softhit claims {claim.id} -o {output.name}"
        for path in save(draw_claim(claim.id, figure, rows), output, command)[:1]:
            screen.print(f"figure  {path}", markup=False, soft_wrap=True)
        return
    head = tuple(dict.fromkeys(key for row in rows for key in row))
    lines = [tuple(_text(row.get(key, "")) for key in head) for row in rows[:_SHOWN]]
    left = len(rows) - len(lines)
    note = f"-o FOLDER draws this{f' and {left} more rows' if left > 0 else ''}"
    Sheet(figure.title, head, lines, note).show(screen)


def draw_claims(folder: Path) -> Iterator[Path]:
    """Draw the figure of every claim that has one, as PNG; yield the files."""
    for found in claims():
        if found.figure is not None:
            command = f"softhit claims {found.id} -o {folder.name}"
            drawing = draw_claim(found.id, found.figure, found.figure.rows())
            yield save(drawing, folder, command, formats=("png",))[0]


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
