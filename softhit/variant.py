"""Which variant of the problem a result speaks about."""

from __future__ import annotations

from dataclasses import dataclass

from softhit.check import check_choice, check_int, fail

__all__ = ["AGGREGATORS", "AVAILABILITIES", "FILLS", "MOST_RETRIEVED", "ORDERS", "Variant"]

ORDERS = ("serve_then_update", "update_then_serve")
AVAILABILITIES = ("stream", "pool")
FILLS = ("free", "charged")
AGGREGATORS = ("best", "mean_topk", "coverage")
MOST_RETRIEVED = 1_000_000


@dataclass(frozen=True)
class Variant:
    """Order of a step, availability of items, price of the fill, and how retrieved qualities combine.

    Attributes
    ----------
    order : {"serve_then_update", "update_then_serve"}
        Whether step t is served by the cache before or after the update of step t.
    availability : {"stream", "pool"}
        ``stream``: only the arrival e_t may enter at step t. ``pool``: any item of the trace may.
    fill : {"free", "charged"}
        ``free``: Z insertions cost ``lambda * max(0, Z - K)``. ``charged``: ``lambda * Z``.
    aggregator : {"best", "mean_topk", "coverage"}
        Utility of the k retrieved items: the first one's quality (k = 1), the sum divided by k (also when
        fewer are held), or 1 - prod(1 - s) rounded down to the quality grid.
    top_k : int
        How many items are retrieved, at most ``MOST_RETRIEVED``; 1 for ``best``.

    Examples
    --------
    >>> Variant(order="update_then_serve").label
    'update_then_serve/stream/free/best'
    """

    order: str = "serve_then_update"
    availability: str = "stream"
    fill: str = "free"
    aggregator: str = "best"
    top_k: int = 1

    def __post_init__(self) -> None:
        check_choice("order", self.order, ORDERS)
        check_choice("availability", self.availability, AVAILABILITIES)
        check_choice("fill", self.fill, FILLS)
        check_choice("aggregator", self.aggregator, AGGREGATORS)
        object.__setattr__(self, "top_k", check_int("top_k", self.top_k, low=1, high=MOST_RETRIEVED))
        if self.aggregator == "best" and self.top_k != 1:
            fail("top_k", self.top_k, "1 for aggregator 'best' (use mean_topk or coverage for more)")

    @property
    def label(self) -> str:
        """One line for tables: ``order/availability/fill/aggregator`` (with k where it is not 1)."""
        k = f"({self.top_k})" if self.top_k > 1 else ""
        return f"{self.order}/{self.availability}/{self.fill}/{self.aggregator}{k}"

    @property
    def serves_first(self) -> bool:
        """True for serve_then_update."""
        return self.order == "serve_then_update"

    @property
    def stream(self) -> bool:
        """True if only the arrival may enter."""
        return self.availability == "stream"

    @property
    def free_fill(self) -> bool:
        """True if the first K insertions cost nothing."""
        return self.fill == "free"
