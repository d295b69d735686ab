"""What nodes report to the next boundary, and how the reports of parallel branches merge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from softhit.check import check_choice, check_int, fail
from softhit.hierarchy.state import canonical

__all__ = ["KINDS", "empty_reports", "key_of", "merge_reports", "pending", "reports_value", "standing"]

KINDS: dict[str, tuple[str, ...]] = {
    "touch": ("id",),
    "reference": ("id",),
    "derive": ("segment",),
    "invalidate": ("field",),
    "pin": ("id",),
    "unpin": ("id",),
    "want": ("query", "segments"),
    "messages": ("segments",),
}
"""Every kind of report and what it must hold beside ``turn``, ``node``, ``task``, ``seq`` and ``kind``.

``touch``: the node used a segment. ``reference``: its output names one. ``derive``: it produced a text.
``invalidate``: what depends on a state field is stale. ``pin``, ``unpin``: keep a segment, or no longer.
``want``: it searched L2 itself; what it found is to come into L1. ``messages``: the conversation as it is.
``derive`` and ``want`` may hold ``seen`` too: digests of the state fields they depend on, as the node saw
them. ``step`` is one more than that of the last report that the node saw, 0 without any: nodes of a subgraph
run one after another between two boundaries. ``derive`` may hold ``over``: node and task of a report that it
saw and writes over.
"""


def empty_reports() -> dict[str, Any]:
    """Return the value of the channel before any node ran."""
    return {"applied": -1, "reports": {}}


def key_of(report: Mapping[str, Any]) -> str:
    """Return the key of a report: who made it, when, and the how-manieth of that run of the node it is."""
    return f"{report['turn']}/{report['node']}/{report['task']}/{report['seq']}"


def _checked(report: Mapping[str, Any]) -> dict[str, Any]:
    kind = check_choice("kind of a report", report.get("kind"), list(KINDS))
    for name in ("turn", "node", "task", "seq", *KINDS[kind]):
        if name not in report:
            fail(f"a report of kind {kind!r}", dict(report), f"a mapping with {name!r}")
    check_int("turn of a report", report["turn"], low=0)
    return dict(report)


def reports_value(reports: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return reports as a value to write into the channel.

    >>> value = reports_value([{"turn": 1, "node": "a", "task": "", "seq": 0, "kind": "touch", "id": "x"}])
    >>> list(value["reports"])
    ['1/a//0']
    """
    checked = [_checked(report) for report in reports]
    return {"applied": -1, "reports": {key_of(report): report for report in checked}}


def merge_reports(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the union of two values without what a boundary has applied: the reducer of the channel.

    Commutative, associative and idempotent: ``applied`` is a maximum, the union is one of sets (two reports
    of one key, which a run never makes, count as the one with the greater text), and what is left out by the
    smaller ``applied`` is also left out by the greater.

    >>> merge_reports({"applied": 3, "reports": {}}, {"applied": -1, "reports": {"3/a//0": {"turn": 3}}})
    {'applied': 3, 'reports': {}}
    """
    a, b = left or {}, right or {}
    applied = max(a.get("applied", -1), b.get("applied", -1))
    union: dict[str, Any] = {}
    for value in (a, b):
        for key, report in value.get("reports", {}).items():
            if report["turn"] > applied:
                known = union.get(key)
                if known is None or (known != report and canonical(known) < canonical(report)):
                    union[key] = report
    return {"applied": applied, "reports": union}


def pending(value: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the reports no boundary has applied, in an order that no interleaving changes.

    What a node saw of others comes before what it reports; otherwise by node, then by run of the node, then
    as the node made them.
    """
    merged = merge_reports(value, None)["reports"].values()
    return sorted(merged, key=lambda r: (r["turn"], r.get("step", 0), r["node"], r["task"], r["seq"]))


def standing(reports: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return of pending reports the derived texts that none of them writes over.

    The last of each run of a node and id; one that writes over another stands where that stood.
    """
    latest: dict[tuple[str, str, str], dict[str, Any]] = {}
    for report in reports:
        if report["kind"] == "derive":
            latest[report["segment"]["id"], report["node"], report["task"]] = dict(report)
    before = {}
    for key, report in latest.items():
        over = (key[0], *report.get("over", ("", "")))
        if over in latest and latest[over].get("step", 0) < report.get("step", 0):
            before[key] = over
    places = {key: n for n, key in enumerate(latest)}

    def place(key: tuple[str, str, str]) -> int:
        while key in before:
            key = before[key]
        return places[key]

    replaced = set(before.values())
    return [latest[key] for key in sorted(latest, key=place) if key not in replaced]
