"""A block trace of 113,872 requests, solved exactly."""

import heapq
from fractions import Fraction

import pytest

from offline_opt.belady import belady
from offline_opt.facade import solve
from offline_opt.flow.ssp import solve_ssp
from offline_opt.soft.bound import lower_bound
from softhit import Variant, cost, simulate, verify
from softhit.io.oracle_general import read_oracle_general


@pytest.fixture(scope="module")
def block(data_dir):
    path = data_dir / "block-io" / "cloudPhysicsIO.oracleGeneral.bin"
    if not path.is_file():
        pytest.skip(f"data set not found: {path.name} in the folder block-io of the data sets")
    trace = read_oracle_general(path)
    assert (trace.n_steps, trace.structure.requests) == (113_872, True)
    return trace


def misses_of_belady_with_bypassing(requests, capacity):
    """Farthest next use first, the request itself included; counted with a heap and nothing else."""
    following = [len(requests)] * len(requests)
    seen = {}
    for t in range(len(requests) - 1, -1, -1):
        following[t] = seen.get(requests[t], len(requests))
        seen[requests[t]] = t
    held, heap, misses = {}, [], 0
    for t, item in enumerate(requests):
        misses += item not in held
        held[item] = following[t]
        heapq.heappush(heap, (-following[t], item))
        while len(held) > capacity:
            use, victim = heapq.heappop(heap)
            if held.get(victim) == -use:
                del held[victim]
    return misses


@pytest.mark.parametrize("capacity", [10, 100, 1000])
def test_without_a_switch_cost_the_optimum_is_belady_with_bypassing(block, capacity):
    answer = solve(block, capacity, 0)
    assert (answer.method, answer.kind, answer.gap) == ("flow", "exact", 0)
    assert answer.cost.fraction == cost(belady(block, capacity), block, capacity, 0).fraction
    assert answer.cost.fraction == misses_of_belady_with_bypassing(block.requests.tolist(), capacity)


@pytest.mark.parametrize("capacity", [10, 100, 1000])
@pytest.mark.parametrize("fill", ["free", "charged"])
def test_with_a_switch_cost_the_optimum_is_proved_and_moves_less(block, capacity, fill):
    variant = Variant(fill=fill)
    answer = solve(block, capacity, "3/2", variant)
    assert (answer.kind, answer.status.certified) == ("exact", True)
    verify(answer.schedule, block, capacity, variant)
    assert lower_bound(block, capacity, Fraction(3, 2), variant, answer.certificate) == answer.cost.fraction
    for_nothing = solve_ssp(block, capacity, 0, variant).schedule
    assert answer.schedule.n_insertions < for_nothing.n_insertions
    for policy in ("lru", "fifo"):
        online = cost(simulate(policy, block, capacity, 1.5, variant=variant), block, capacity, 1.5, variant)
        assert answer.cost.fraction < online.fraction
