"""Bracket the optimum of every LoCoMo conversation, with certificates: ``python -m benchmarks.locomo``.

A cell is a conversation, a definition of quality and a capacity. It is solved once; its certificate is
written into the output folder, and the numbers are what the checker, which has no solver, proves from that
file. A run that was interrupted goes on: a certificate that is there and proves its cell is not made again.
No limit is in seconds, so the numbers do not depend on the machine's speed.

Writes ``brackets.csv``, ``brackets.md`` and ``certificates/`` into the output folder. The certificates are
made from the data and not to be redistributed (LoCoMo: snap-research, CC BY-NC 4.0).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from offline_opt import solve
from offline_opt.certificate import Certificate, certify, check_certificate, write_certificate
from softhit import Trace, Variant, floor_units
from softhit.errors import InvalidInput, NotCertified, SofthitError
from softhit.exact import check_switch_cost
from softhit.io import data_path, locomo_trace, read_locomo
from softhit.retrieval import utility_scale
from softhit_lab import ranges
from softhit_lab.cells import write_csv, write_text
from softhit_lab.screen import show_number
from softhit_lab.tables import Sheet

__all__ = ["Bracket", "brackets", "report"]

CAPACITIES = (25, 50, 100, 200)
QUALITIES = ("evidence", "similarity")


@dataclass(frozen=True)
class Bracket:
    """What is proved about one cell: ``floor <= low <= OPT <= high``."""

    conversation: str
    quality: str
    capacity: int
    queries: int
    entries: int
    floor: Fraction
    low: Fraction
    high: Fraction

    @property
    def gap(self) -> Fraction:
        """The width as a part of the upper bound."""
        return (self.high - self.low) / self.high if self.high else Fraction(0)

    @property
    def gap_above_floor(self) -> Fraction:
        """The width as a part of what the upper bound exceeds F by: of what a schedule can influence."""
        return (self.high - self.low) / (self.high - self.floor) if self.high > self.low else Fraction(0)

    @property
    def text(self) -> str:
        """``52`` if the optimum is known, else ``52..53``."""
        return show_number(self.low) + (f"..{show_number(self.high)}" if self.high > self.low else "")

    def row(self) -> dict[str, str | int]:
        """One line of the CSV."""
        return {
            "conversation": self.conversation,
            "quality": self.quality,
            "capacity": self.capacity,
            "queries": self.queries,
            "entries": self.entries,
            "floor": show_number(self.floor),
            "lower_bound": show_number(self.low),
            "upper_bound": show_number(self.high),
            "gap_percent": f"{100 * float(self.gap):.4f}",
            "gap_above_floor_percent": f"{100 * float(self.gap_above_floor):.4f}",
            "kind": "exact" if self.low == self.high else "band",
        }


def _proved(
    path: Path, trace: Trace, capacity: int, switch_cost: Fraction, variant: Variant
) -> tuple[Fraction, Fraction] | None:
    """Return the bounds that a certificate file proves about this cell; None if it proves none."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    try:
        made = Certificate.from_bytes(data)
    except InvalidInput:
        return None
    verdict = check_certificate(data, trace)
    if (made.capacity, made.switch_cost, made.variant) != (capacity, switch_cost, variant):
        return None
    if verdict.lower_bound is None or verdict.upper_bound is None:
        return None
    return verdict.lower_bound, verdict.upper_bound


def brackets(
    data: Path,
    folder: Path,
    capacities: Sequence[int] = CAPACITIES,
    switch_cost: Fraction | int | str = 1,
    qualities: Sequence[str] = QUALITIES,
    embedder: str = "hashed_tfidf",
    conversations: Iterable[str] | None = None,
    method: str = "auto",
    variant: Variant | None = None,
) -> Iterator[Bracket]:
    """Yield the bracket of every cell, as soon as its certificate is written and checked.

    Parameters
    ----------
    data : Path
        The LoCoMo json.
    folder : Path
        Where the certificates are and will be.
    capacities, switch_cost, qualities, embedder, method, variant
        As in :func:`softhit.io.locomo_trace` and :func:`offline_opt.solve`.
    conversations : iterable of str, optional
        Sample ids; default all.

    Raises
    ------
    NotCertified
        A certificate just written does not prove its cell: a bug.
    """
    kind, lam = variant or Variant(), check_switch_cost(switch_cost)
    folder.mkdir(parents=True, exist_ok=True)
    names = [c.id for c in read_locomo(data)] if conversations is None else list(conversations)
    for quality in qualities:
        label = quality if quality == "evidence" else f"{quality} ({embedder})"
        for name in names:
            trace = locomo_trace(data, quality, name, embedder=embedder)
            full = utility_scale(trace.quality_scale, kind)
            for capacity in capacities:
                words = [name, label, f"K{capacity}", f"l{lam}", kind.label]
                path = folder / (re.sub(r"[^\w.-]+", "_", "-".join(words)) + ".cert")
                found = _proved(path, trace, capacity, lam, kind)
                if found is None:
                    answer = solve(trace, capacity, lam, kind, method)
                    if answer.status.stop == "interrupted":
                        raise KeyboardInterrupt
                    write_certificate(certify(answer, trace, capacity, lam, kind), path)
                    found = _proved(path, trace, capacity, lam, kind)
                if found is None:
                    raise NotCertified(f"{path.name} was just written and proves nothing")
                floor = Fraction(floor_units(trace, kind), full)
                yield Bracket(
                    name, label, capacity, trace.n_queries, len(trace.items), floor, found[0], found[1]
                )


def report(rows: Sequence[Bracket], conditions: str) -> str:
    """Return the tables as Markdown: one per definition of quality, then the brackets that are open."""
    sheets = []
    for quality in dict.fromkeys(r.quality for r in rows):
        here = [r for r in rows if r.quality == quality]
        capacities = list(dict.fromkeys(r.capacity for r in here))
        lines = []
        for name in dict.fromkeys(r.conversation for r in here):
            own = [r for r in here if r.conversation == name]
            facts = (str(own[0].queries), str(own[0].entries), show_number(own[0].floor))
            lines.append((name, *facts, *(r.text for r in own)))
        exact = sum(r.low == r.high for r in here)
        sheets.append(
            Sheet(
                f"OPT, quality by {quality}, {conditions}",
                ("conversation", "queries", "entries", "F", *(f"K = {k}" for k in capacities)),
                lines,
                f"{exact} of {len(here)} exact.",
            )
        )
    wide = [r for r in rows if r.high > r.low]
    lines = [
        (
            r.conversation,
            r.quality,
            str(r.capacity),
            *map(show_number, (r.floor, r.low, r.high)),
            f"{100 * float(r.gap):.3f} %",
            f"{100 * float(r.gap_above_floor):.3f} %",
        )
        for r in sorted(wide, key=lambda r: -r.gap_above_floor)
    ]
    head = ("conversation", "quality", "K", "F", "lower bound", "upper bound", "gap", "gap above F")
    if wide:
        sheets.append(Sheet("Where the bounds do not meet", head, lines))
    return "\n".join(sheet.markdown() for sheet in sheets)


def main(words: Sequence[str] | None = None) -> int:
    """Parse the command line, bracket, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.locomo")
    parser.add_argument(
        "--data", type=Path, help="the LoCoMo json; default: locomo/locomo10.json of the data"
    )
    parser.add_argument("-K", "--capacity", default="25,50,100,200", help="comma list")
    parser.add_argument("-l", "--switch-cost", default="1")
    parser.add_argument("--quality", default="evidence,similarity", help="comma list")
    parser.add_argument("--embedder", default="hashed_tfidf", help="or wordllama (an extra)")
    parser.add_argument("--conversation", help="comma list of sample ids; default all")
    parser.add_argument("--method", default="auto", help="how OPT is found")
    parser.add_argument("--order", default="serve_then_update")
    parser.add_argument("--availability", default="stream")
    parser.add_argument("--fill", default="free")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/locomo"), help="folder")
    chosen = parser.parse_args(words)
    rows: list[Bracket] = []
    try:
        variant = Variant(order=chosen.order, availability=chosen.availability, fill=chosen.fill)
        lam = ranges.switch_cost(chosen.switch_cost)
        for row in brackets(
            chosen.data or data_path("locomo", "locomo10.json"),
            chosen.output / "certificates",
            ranges.capacities(chosen.capacity),
            lam,
            chosen.quality.split(","),
            chosen.embedder,
            chosen.conversation.split(",") if chosen.conversation else None,
            chosen.method,
            variant,
        ):
            rows.append(row)
            gaps = f"gap {100 * float(row.gap):.3g} %, above F {100 * float(row.gap_above_floor):.3g} %"
            print(f"{row.conversation} {row.quality} K = {row.capacity}: {row.text}; {gaps}", flush=True)
        text = report(rows, f"lambda = {lam}, {variant.label}")
        write_text(text, chosen.output / "brackets.md")
        lines = [row.row() for row in rows]
        write_csv(lines, chosen.output / "brackets.csv", list(lines[0]))
    except SofthitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted after {len(rows)} cells; the same command goes on from there", file=sys.stderr)
        return 130
    print(f"\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
