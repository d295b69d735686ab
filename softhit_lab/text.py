"""The real texts of the demo: the language reference that comes with Python, or the reader's own data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from softhit import Trace
from softhit.errors import InvalidInput
from softhit.io import locomo_trace, topics_trace
from softhit_lab.sources import open_trace

__all__ = ["Text", "text_traces"]


@dataclass(frozen=True)
class Text:
    """A trace made of a text: a name for its folder, what it is, and the capacities to try."""

    name: str
    about: str
    trace: Trace
    capacities: tuple[int, ...]


def text_traces(data: Path | None, fast: bool) -> list[Text]:
    """Return the texts of the demo: of ``data`` where it is given, else of ``pydoc``.

    ``data`` is a LoCoMo json file, of which the first conversation is taken, or any trace file.
    """
    if data is None:
        reading = "Somebody reads Python's language reference: bursts, links, returns; what was read serves"
        texts = [
            Text("text-short", f"{reading} (200 steps).", topics_trace(60, 200), (4, 8, 16)),
            Text("text", f"{reading} (1000 steps).", topics_trace(200, 1000), (4, 16, 64)),
        ]
        return texts[:1] if fast else texts
    if data.suffix.lower() == ".json":
        where = "LoCoMo (snap-research, CC BY-NC 4.0), first conversation: turns arrive, questions ask"
        evidence = locomo_trace(data, quality="evidence", conversations=0)
        similar = locomo_trace(data, quality="similarity", conversations=0)
        return [
            Text("locomo-evidence", f"{where}; the evidence turns answer.", evidence, (8, 32, 128)),
            Text("locomo-similarity", f"{where}; similar turns help.", similar, (8, 32, 128)),
        ]
    trace = open_trace(data)
    if not trace.n_queries:
        raise InvalidInput(f"{str(data)!r} has no query, so there is nothing to compare")
    reach = max(1, trace.n_items // 2)
    capacities = tuple(dict.fromkeys(min(reach, k) for k in (4, 16, 64)))
    return [Text("data", f"{data.name}, as it is.", trace, capacities)]
