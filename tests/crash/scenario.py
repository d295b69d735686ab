"""What the crash harness needs of a scenario, and the scenarios by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from softhit.errors import UnknownName

__all__ = ["Scenario", "find", "scenarios"]


class Scenario(Protocol):
    """A program with durable state below one folder. Every method runs in a process of its own."""

    name: str

    def prepare(self, folder: Path) -> None:
        """Write the files it starts from; never killed."""

    def run(self, folder: Path) -> Any:
        """Do the work, and be killed somewhere."""

    def resume(self, folder: Path) -> Any:
        """Open what is there, do the rest of the work, and return plain data: what came out."""

    def accepted(self, folder: Path) -> dict[str, Any]:
        """Read the files without the program, changing none: {"derived": what it promised to keep, ...}."""

    def join(self, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
        """Join what was accepted at two kills, one after the other."""

    def check(self, folder: Path, accepted: dict[str, Any], answer: Any, left: Any) -> dict[str, Any]:
        """Judge the end by the files: {"wrong": [texts], "left": what a run without a kill leaves}.

        ``left`` is the latter, with the answer as "answer"; None when it is to be found out.
        """


@cache
def scenarios() -> Mapping[str, Scenario]:
    """All scenarios; importing them imports everything that a child may need."""
    from tests.crash.faults import FAULTS
    from tests.crash.graphs import GRAPHS
    from tests.crash.stores import STORES
    from tests.crash.toys import TOYS

    return {one.name: one for one in (*TOYS, *STORES, *GRAPHS, *FAULTS)}


def find(name: str) -> Scenario:
    """The scenario of that name."""
    known = scenarios()
    if name not in known:
        raise UnknownName("scenario", name, sorted(known))
    return known[name]
