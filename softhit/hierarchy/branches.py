"""How often earlier runs took each branch of a graph, as weights for the prefetch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from fractions import Fraction
from functools import cache, partial
from pathlib import Path

from softhit.check import check_int
from softhit.hierarchy.database import Database
from softhit.hierarchy.segment import check_id

__all__ = ["Branches", "uniform"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, graph TEXT NOT NULL, run TEXT NOT NULL, UNIQUE (graph, run)
);
CREATE TABLE IF NOT EXISTS visits (
    run INTEGER NOT NULL, turn INTEGER NOT NULL, source TEXT NOT NULL, PRIMARY KEY (run, turn, source)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS moves (
    run INTEGER NOT NULL, turn INTEGER NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL,
    PRIMARY KEY (run, turn, source, target)
) WITHOUT ROWID
"""


def uniform(source: str, target: str, targets: int) -> Fraction:
    """Return the chance of a move of which nothing is known: one of ``targets`` is taken.

    >>> uniform("a", "b", 4)
    Fraction(1, 4)
    """
    return Fraction(1, targets)


class Branches:
    """Counts of the branches taken, by graph and run.

    Each run counts once, however often it is resumed or replayed: what is recorded for a turn takes the
    place of what the run had recorded from that turn on.

    Parameters
    ----------
    path : path or ":memory:"
        A SQLite file, created when absent; threads and processes may share it.
    keep : int
        Of how many runs of each graph the counts are kept, >= 1; the earliest are forgotten first.

    Raises
    ------
    Unavailable
        By every method, when the file cannot be opened, read or written.

    Examples
    --------
    >>> branches = Branches(":memory:")
    >>> branches.record("graph", "first run", 1, ["route"], [("route", "search")])
    >>> branches.chance("graph", "second run", "route", "search", 2)
    Fraction(2, 3)
    >>> branches.close()
    """

    def __init__(self, path: Path | str = ":memory:", keep: int = 1000) -> None:
        self.keep = check_int("keep", keep, low=1)
        self._database = Database(path, _SCHEMA, "branches")

    @property
    def name(self) -> str:
        """What it is and where."""
        return self._database.name

    def record(
        self, graph: str, run: str, turn: int, ran: Collection[str], moves: Iterable[tuple[str, str]]
    ) -> None:
        """Count that at a turn of a run these nodes had run, and which of their branches were taken.

        Where several nodes run in parallel, a move is counted for each one that could have made it.
        """
        check_id("graph", graph)
        check_id("run", run)
        check_int("turn", turn, low=0)
        with self._database.write() as c:
            c.execute("INSERT OR IGNORE INTO runs (graph, run) VALUES (?, ?)", (graph, run))
            number = c.execute(
                "SELECT number FROM runs WHERE graph = ? AND run = ?", (graph, run)
            ).fetchone()[0]
            for table in ("visits", "moves"):
                c.execute(f"DELETE FROM {table} WHERE run = ? AND turn >= ?", (number, turn))
            c.executemany(
                "INSERT INTO visits VALUES (?, ?, ?)", [(number, turn, u) for u in sorted(set(ran))]
            )
            c.executemany(
                "INSERT INTO moves VALUES (?, ?, ?, ?)", [(number, turn, u, v) for u, v in sorted(set(moves))]
            )
            old = c.execute(
                "SELECT number FROM runs WHERE graph = ? ORDER BY number DESC LIMIT -1 OFFSET ?",
                (graph, self.keep),
            ).fetchall()
            for (gone,) in old:
                c.execute("DELETE FROM visits WHERE run = ?", (gone,))
                c.execute("DELETE FROM moves WHERE run = ?", (gone,))
                c.execute("DELETE FROM runs WHERE number = ?", (gone,))

    def counts(self, graph: str, run: str, source: str) -> tuple[int, dict[str, int]]:
        """Return how often a node ran in the other runs of a graph, and how often each target followed."""
        other = "JOIN runs ON number = t.run WHERE graph = ? AND runs.run != ? AND source = ?"
        with self._database.read() as c:
            visits = c.execute(f"SELECT count(*) FROM visits t {other}", (graph, run, source)).fetchone()[0]
            rows = c.execute(
                f"SELECT target, count(*) FROM moves t {other} GROUP BY target", (graph, run, source)
            ).fetchall()
        return int(visits), {target: int(number) for target, number in rows}

    def chance(self, graph: str, run: str, source: str, target: str, targets: int) -> Fraction:
        """Return the chance of a move by the other runs of the graph, smoothed after Laplace.

        (times the move was made + 1) / (times the node ran + its number of possible targets): a branch
        nobody took yet has a small chance, and without any runs all are equal. It does not depend on the run
        itself, so a resumed run sees what it saw.
        """
        return self.chances(graph, run)(source, target, targets)

    def chances(self, graph: str, run: str) -> Callable[[str, str, int], Fraction]:
        """Return :meth:`chance` for one moment: it reads what it knows of a node once."""
        counts = cache(partial(self.counts, graph, run))

        def chance(source: str, target: str, targets: int) -> Fraction:
            visits, moves = counts(source)
            return Fraction(moves.get(target, 0) + 1, visits + check_int("targets", targets, low=1))

        return chance

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._database.close()

    def __enter__(self) -> Branches:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
