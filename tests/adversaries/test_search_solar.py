"""For SOLAR the search finds requests that are worse than every named family."""

from __future__ import annotations

from pathlib import Path

import pytest

from adversaries.search import Budget, Objective, Search, choose_best, measure
from adversaries.search.report import FINAL_SEEDS

EVALUATIONS = 20_000
"""Each on four seeds and a thousand requests; under half a minute for both capacities together."""


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [4, 8])
def test_the_search_finds_worse_for_solar_than_every_named_family(
    capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    from families_worst import slopes

    worst, name = max((value, name) for name, value in slopes("solar", capacity, 1, steps=4000, seeds=10))
    objective = Objective("solar", capacity, capacity + 1)
    search = Search(objective, seed=1)
    search.run(Budget(evaluations=EVALUATIONS))
    found = measure(objective, choose_best(search), seeds=FINAL_SEEDS)
    assert found.ratio is not None
    assert found.low is not None
    print(f"K={capacity}: {name} {worst:.3f}; found {float(found.ratio):.3f}, at least {found.low:.3f}")
    assert len(found.seeds) >= 1000
    assert found.low > 1.2 * worst
