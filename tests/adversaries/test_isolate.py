"""Adapters run in a process of their own: what they hold is read, and their crashes are findings."""

import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from adversaries.replay.adapter import Adapter, AdapterInfo, Unsupported, adapter_names, make_adapter
from adversaries.replay.isolate import AdapterPolicy
from adversaries.replay.line import run_line
from adversaries.replay.record import Replayed, replay
from softhit import Trace, cost, from_arrays, from_requests, simulate
from softhit.errors import InvalidInput, InvalidSchedule, ReplayError, UnknownName
from softhit.policies import Decision

THEIRS = """
import os, sys, time
from collections import OrderedDict
from adversaries.replay.adapter import Unsupported

class Lru:
    name, version = "theirs", "1.2"
    def __init__(self, extra=0): self.extra = extra
    def open(self, setup):
        self.capacity, self.cache = setup.capacity + self.extra, OrderedDict()
    def step(self, ask):
        print("chatter on standard output")
        if ask.weight and ask.query in self.cache:
            self.cache.move_to_end(ask.query)
            return ask.query
        if ask.arrival >= 0:
            self.cache[ask.arrival] = None
            if len(self.cache) > self.capacity: self.cache.popitem(last=False)
        return -1
    def held(self): return list(self.cache)
    def close(self): pass

class Aborts(Lru):
    def step(self, ask): return os.abort() if ask.step == 3 else super().step(ask)
class Hangs(Lru):
    def step(self, ask):
        while ask.step == 3: time.sleep(10)
        return super().step(ask)
class Leaves(Lru):
    def step(self, ask): return os._exit(4) if ask.step == 3 else super().step(ask)
class Raises(Lru):
    def step(self, ask): return {}[ask.step] if ask.step == 3 else super().step(ask)
class Hidden(Lru):
    def held(self): raise Unsupported("it does not say what it holds")
class Twice(Lru):
    def held(self): return [*self.cache, *self.cache]
class Lies(Lru):
    def step(self, ask): super().step(ask); return ask.query
class Mute(Lru):
    def step(self, ask): super().step(ask); return -1
class Silent(Lru):
    def step(self, ask): super().step(ask)
class Fetches(Lru):
    def step(self, ask): super().step(ask); self.cache[(ask.arrival + 1) % 9] = None
class Vectors(Lru):
    def open(self, setup): super().open(setup); self.dimension = setup.dimension
    def step(self, ask):
        if self.dimension == 0: raise Unsupported("needs vectors")
        assert len(ask.vector) == self.dimension == len(ask.arrival_vector)
        assert ask.vector[ask.query] == 1 and ask.arrival_vector[ask.arrival] == 1
        super().step(ask)
class Reads(Lru):
    def step(self, ask): assert sys.stdin.read() == ""; return super().step(ask)
class Refuses(Lru):
    def open(self, setup): raise Unsupported("no capacity below 10")
not_one = dict
"""

TRACE = from_requests([0, 1, 0, 2, 0, 3, 4, 0, 3, 1, 5, 0, 3] * 3)


@pytest.fixture(autouse=True)
def _their_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs_for_test.py").write_text(textwrap.dedent(THEIRS))
    monkeypatch.syspath_prepend(tmp_path)


def run(name: str, trace: Trace = TRACE, capacity: int = 3, timeout: float = 30.0) -> Replayed:
    return replay(AdapterPolicy(f"theirs_for_test:{name}", timeout), trace, capacity, "1/2")


def test_what_is_read_makes_the_schedule_and_softhit_prices_it() -> None:
    done = run("Lru")
    wanted = simulate("lru", TRACE, 3)
    assert done.schedule == wanted
    assert done.cost == cost(wanted, TRACE, 3, "1/2")
    assert (done.client.name, done.client.version) == ("theirs", "1.2")
    assert done.answers is not None
    assert (done.answers.hits, done.answers.silent, done.answers.ghosts) == (done.hits, (), ())
    assert 0 < done.hits < TRACE.n_queries


def test_a_library_that_reads_standard_input_finds_nothing_there() -> None:
    assert run("Reads").schedule == simulate("lru", TRACE, 3)


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("Aborts", "exit", "it was ended by SIGABRT"),
        ("Leaves", "exit", "it exited with code 4"),
        ("Raises", "error", "error: KeyError: 3"),
        ("Hangs", "timeout", "no reply within 2 s"),
    ],
)
def test_a_crash_or_a_hang_is_a_finding_that_names_library_version_and_step(
    name: str, kind: str, says: str
) -> None:
    with pytest.raises(ReplayError) as caught:
        run(name, timeout=2)
    assert (caught.value.step, caught.value.kind) == (3, kind)
    assert str(caught.value).startswith("adapter 'theirs 1.2' at step 3: ")
    assert says in str(caught.value)


def test_more_than_the_capacity_is_found_whatever_the_library_counts() -> None:
    with pytest.raises(InvalidSchedule) as caught:
        run("Lru(extra=1)")
    assert (caught.value.step, caught.value.rule) == (6 - 1, "the cache holds more than its capacity")


def test_an_item_that_could_not_have_come_in_is_found() -> None:
    with pytest.raises(InvalidSchedule, match=r"step 0, item 1: only the arrival"):
        run("Fetches")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Hidden", "step 0: unsupported: it does not say what it holds"),
        ("Twice", "step 0: unsupported: item 0 is stored more than once"),
        ("Vectors", "step 0: unsupported: needs vectors"),
        ("Refuses", "before the first step: unsupported: no capacity below 10"),
        ("not_one", "unsupported: adapter 'theirs_for_test:not_one' must have name"),
        ("Lru(more=1)", "unexpected keyword argument 'more'"),
        ("Absent", "cannot be loaded"),
    ],
)
def test_what_cannot_be_done_or_read_is_said_to_be_unsupported(name: str, says: str) -> None:
    with pytest.raises(Unsupported) as caught:
        run(name)
    assert says in str(caught.value)


def test_answers_that_contradict_the_contents_are_counted_and_cost_nothing() -> None:
    honest, lies, mute, silent = (run(name) for name in ("Lru", "Lies", "Mute", "Silent"))
    assert honest.cost == lies.cost == mute.cost == silent.cost
    assert silent.answers is None
    assert lies.answers is not None
    assert mute.answers is not None
    assert honest.answers is not None
    misses = set(range(TRACE.n_steps)) - set(mute.answers.silent)
    assert len(mute.answers.silent) == honest.hits
    assert set(lies.answers.ghosts) == misses
    assert lies.answers.hits == TRACE.n_queries


def test_vectors_reach_the_adapter() -> None:
    unit = np.eye(4, dtype=np.float32)
    trace = from_arrays(unit, arrivals=[0, 1, 2, 3], query_vectors=unit, item_vectors=unit)
    assert run("Vectors", trace).schedule.n_insertions == 4


def test_an_unknown_adapter_is_refused_at_once_and_the_nearest_named() -> None:
    with pytest.raises(UnknownName, match="unknown adapter"):
        AdapterPolicy("no_such_adapter_at_all")
    with pytest.raises(InvalidInput, match="key=value"):
        make_adapter("theirs_for_test:Lru(1)")
    assert isinstance(make_adapter("theirs_for_test:Lru(extra=2)"), Adapter)
    assert len(adapter_names()) == len(set(adapter_names()))


def test_a_step_is_a_decision_for_a_session_too() -> None:
    from softhit import Session

    with AdapterPolicy("theirs_for_test:Lru") as policy:
        session = Session(policy, n_items=5, capacity=1)
        served = [session.step([i], [10_000], arrival=i).decision for i in (4, 2)]
    assert served == [Decision((), (4,)), Decision((4,), (2,))]


def test_one_process_may_serve_many_runs_with_a_new_cache_each() -> None:
    with AdapterPolicy("theirs_for_test:Lru", fresh=False) as policy:
        first = run_line(policy, TRACE, 3)
        child = policy._child
        assert run_line(policy, TRACE, 3) == first == simulate("lru", TRACE, 3)
        assert run_line(policy, TRACE, 2) == simulate("lru", TRACE, 2)
        assert policy._child is child


def test_a_library_that_aborts_before_it_says_its_version_is_named_with_the_installed_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = AdapterInfo("stillborn", "aborts", "numpy", "replay", lambda: None)  # type: ignore[arg-type, return-value]
    monkeypatch.setattr("adversaries.replay.isolate.adapter_info", lambda name: row)
    policy = AdapterPolicy("stillborn")
    policy.command = (sys.executable, "-c", "import os; os.abort()")
    with pytest.raises(ReplayError) as caught:
        replay(policy, TRACE, 3)
    assert str(caught.value).startswith(
        f"adapter 'stillborn' (numpy {np.__version__}) before the first step: it was ended by SIGABRT"
    )
