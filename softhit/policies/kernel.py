"""The compiled form of a policy: two functions on a state, one loop, and a step-by-step face.

A policy file writes ``init`` (Python) and three compiled functions; see CONTRIBUTING for a template.

``init(context, **parameters)``
    Returns the state: a tuple of arrays. A clairvoyant policy's is ``init(context, trace, **parameters)``.
``serve(state, rng, t, got, quality, n, utility, weight)``
    Called at every step with weight > 0: ``got[:n]`` are the retrieved items that count as touched, in rank
    order (policies with a notion of recency touch the first one last), ``quality[:n]`` their units of
    1/quality_scale; ``n = 0`` on a miss. ``utility`` in units of 1/utility_scale.
``decide(state, rng, t, item, quality, utility, weight, size, free, out)``
    Called when the step's arrival is not held and fits the capacity at all. ``quality`` is the arrival's
    for this step's query, in units of 1/utility_scale. Returns -1 (do not admit) or m >= 0 (admit, after
    evicting ``out[:m]``, which must make room).
``run(state, rng, stream, config, log)``
    ``return replay(serve, decide, state, rng, stream, config, log)``: the batch loop, compiled per policy.

The step-by-step path calls the same ``serve`` and ``decide``, so a rule exists once. Where they make no new
arrays, decorate them with :func:`softhit.jit.lean`: it is many times faster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import check_choice, check_real, fail
from softhit.errors import InvalidInput, InvalidSchedule
from softhit.jit import lean, template
from softhit.policies.protocol import Context, Decision, Observation
from softhit.retrieval import aggregator_code, retrieve, utility, utility_scale
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant
from softhit.verify import RULES

__all__ = ["CompiledPolicy", "Kernel", "replay"]

State = tuple[NDArray[Any], ...]

MOST_ROOM = 2**62
"""Compiled code sees a larger capacity as this one: no trace fills either."""


@lean
def observe(row: Any, a: Any, b: Any, held: Any, config: Any, e: Any, got: Any, worth: Any) -> Any:
    """Retrieve from the entries a:b; return how many, their utility, and the quality of item e."""
    items, quality, ranks = row
    own = np.int64(0)
    for x in range(a, b):
        if items[x] == e:
            own = np.int64(quality[x])
    n = np.int64(retrieve(a, b, items, quality, ranks, config[7] != 0, held, config[1], got, worth))
    return n, utility(worth, n, config[2], config[3]), own


@lean
def _touched(got: Any, worth: Any, n: Any, touch: Any) -> Any:
    """Keep the retrieved items whose quality counts as a touch; return how many."""
    m = np.int64(0)
    for j in range(n):
        if worth[j] >= touch:
            got[m] = got[j]
            worth[m] = worth[j]
            m += 1
    return m


@template
def replay(serve: Any, decide: Any, state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Drive ``serve`` and ``decide`` through a whole trace; the batch loop of every compiled policy."""
    indptr, items, quality, ranks, arrivals, weight, sizes = stream
    leave_ptr, leave_items, enter_ptr, enter_items = log
    capacity = config[0]
    k = config[1]
    aggregator = config[2]
    scale = config[3]
    full = config[4]
    touch = config[5]
    on_miss = config[6] != 0
    scored = config[7] != 0
    requests = config[8] != 0
    unit = config[9] != 0
    # two short cuts past observe: the best of a row, and rows that hold the arrival and nothing else
    single = k == 1 and not scored and aggregator == 0
    plain = single and requests
    row = (items, quality, ranks)
    per_unit = full // scale
    held = np.zeros(len(sizes), np.uint8)
    out = np.empty(min(capacity, len(sizes)) + 1, np.int32)
    got = np.empty(k, np.int32)
    worth = np.empty(k, np.int32)
    free = capacity
    left = 0
    entered = 0
    leave_ptr[0] = 0
    enter_ptr[0] = 0
    for t in range(len(arrivals)):
        e = np.int64(arrivals[t])
        w = np.int64(weight[t])
        n = np.int64(0)
        u = np.int64(0)
        own = np.int64(0)
        inside = e >= 0 and held[e] != 0
        if w > 0:
            if plain:
                own = np.int64(quality[t])
                if inside:
                    got[0] = e
                    worth[0] = own
                    u = own
                    n = np.int64(1)
            elif single:
                top = np.int32(0)
                for x in range(indptr[t], indptr[t + 1]):
                    i = items[x]
                    s = quality[x]
                    if i == e:
                        own = np.int64(s)
                    if s > top and held[i]:
                        top = s
                        got[0] = i
                if top > 0:
                    worth[0] = top
                    u = np.int64(top)
                    n = np.int64(1)
            else:
                n, u, own = observe(row, indptr[t], indptr[t + 1], held, config, e, got, worth)
            if touch > 0:
                n = _touched(got, worth, n, touch)
            serve(state, rng, t, got, worth, n, u, w)
        if e >= 0 and not inside and not (on_miss and (n > 0 or w == 0)):
            size = np.int64(1) if unit else sizes[e]
            if size <= capacity:
                m = decide(state, rng, t, e, own * per_unit, u, w, size, free, out)
                if m >= 0:
                    for j in range(m):
                        v = out[j]
                        if v < 0 or v >= len(sizes) or held[v] == 0:
                            return -1 - t, np.int64(v)
                        held[v] = 0
                        free += 1 if unit else sizes[v]
                        leave_items[left] = v
                        left += 1
                    free -= size
                    if free < 0:
                        return -1 - t, np.int64(e)
                    held[e] = 1
                    enter_items[entered] = e
                    entered += 1
        leave_ptr[t + 1] = left
        enter_ptr[t + 1] = entered
    return left, entered


@dataclass(frozen=True)
class Kernel:
    """The functions of one compiled policy (see the module docstring).

    Attributes
    ----------
    name : str
    init : callable
        ``init(context, **parameters) -> tuple of arrays``, or ``init(context, trace, **parameters)``.
    serve, decide, run : compiled functions
    sizes : bool
        Whether the policy can handle sizes other than 1.
    clairvoyant : bool
        Whether ``init`` sees the trace.
    """

    name: str
    init: Callable[..., State]
    serve: Callable[..., None]
    decide: Callable[..., int]
    run: Callable[..., tuple[int, int]]
    sizes: bool = False
    clairvoyant: bool = False


def _touch_units(touch: Any, scale: int) -> int:
    """Return the smallest quality, in units, that counts as a touch; 0 = whatever is retrieved."""
    if touch == "retrieved":
        return 0
    match = re.fullmatch(r"threshold\(([^()]+)\)", touch) if isinstance(touch, str) else None
    try:
        value = check_real("touch threshold", float(match[1]), 0, 1) if match else None
    except InvalidInput:
        raise
    except ValueError:
        value = None
    if value is None:
        fail("touch", touch, "'retrieved' or 'threshold(x)' with x in [0, 1]")
    return int(np.ceil(value * scale - 1e-9))


@dataclass
class CompiledPolicy:
    """A policy from a :class:`Kernel`: whole traces in compiled code, or one step at a time.

    Parameters
    ----------
    kernel : Kernel
    parameters : dict
        Passed to ``kernel.init``.
    defaults : dict
        Values that the name does not mention.
    touch : str
        Which retrieved items count as touched (a hit): ``"retrieved"`` (default) or ``"threshold(x)"``.
    admit : {"arrival", "miss"}
        ``arrival`` (default): every arrival that is not held is a candidate. ``miss``: only at steps where
        nothing was touched. With e_t = q_t the two agree.
    """

    kernel: Kernel
    parameters: dict[str, Any] = field(default_factory=dict)
    touch: str = "retrieved"
    admit: str = "arrival"
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("admit", self.admit, ["arrival", "miss"])
        _touch_units(self.touch, 1)
        self._state: State | None = None
        self._trace: Trace | None = None

    @property
    def clairvoyant(self) -> bool:
        """Whether the policy sees the future; then it needs ``prepare``."""
        return self.kernel.clairvoyant

    def prepare(self, trace: Trace) -> None:
        """Show a clairvoyant policy the trace it is about to run on."""
        self._trace = trace

    @property
    def name(self) -> str:
        """The name with the parameters that are not at their defaults."""
        extra = [
            f"{k}={v}" for k, v in self.parameters.items() if k not in self.defaults or v != self.defaults[k]
        ]
        extra += [f"touch={self.touch}"] if self.touch != "retrieved" else []
        extra += [f"admit={self.admit}"] if self.admit != "arrival" else []
        return self.kernel.name + (f"({', '.join(extra)})" if extra else "")

    def _init(self, context: Context) -> State:
        if not self.kernel.sizes and np.any(context.sizes != 1):
            raise InvalidInput(f"policy {self.kernel.name} handles unit sizes only")
        if not self.kernel.clairvoyant:
            return self.kernel.init(context, **self.parameters)
        if self._trace is None:
            raise InvalidInput(f"policy {self.kernel.name} sees the future: call prepare(trace) first")
        return self.kernel.init(context, self._trace, **self.parameters)

    def start(self, context: Context) -> None:
        """Prepare a step-by-step run."""
        self._context = context
        self._touch = _touch_units(self.touch, context.quality_scale)
        k = context.variant.top_k
        self._got, self._worth = np.empty(k, np.int32), np.empty(k, np.int32)
        self._out = np.empty(min(context.capacity, context.n_items) + 1, np.int32)
        self._state = self._init(context)

    def decide(self, seen: Observation) -> Decision:
        """Make one step with the same compiled functions as the batch loop."""
        if self._state is None:
            raise InvalidInput("decide was called before start")
        rng, n = self._context.rng, 0
        if seen.weight > 0:
            for item, worth in zip(seen.retrieved, seen.retrieved_units, strict=True):
                if worth >= self._touch:
                    self._got[n], self._worth[n] = item, worth
                    n += 1
            self.kernel.serve(
                self._state, rng, seen.step, self._got, self._worth, n, seen.utility_units, seen.weight
            )
        if seen.arrival < 0 or seen.arrival_held:
            return Decision()
        size = int(self._context.sizes[seen.arrival])
        if size > self._context.capacity or (self.admit == "miss" and (n > 0 or seen.weight == 0)):
            return Decision()
        m = self.kernel.decide(
            self._state,
            rng,
            seen.step,
            seen.arrival,
            seen.arrival_units * (seen.utility_scale // seen.quality_scale),
            seen.utility_units,
            seen.weight,
            size,
            min(seen.free, MOST_ROOM),
            self._out,
        )
        if m < 0:
            return Decision()
        return Decision(evict=tuple(self._out[:m].tolist()), admit=(seen.arrival,))

    def schedule(self, trace: Trace, context: Context) -> Schedule:
        """Run the whole trace in compiled code and return the history."""
        state = self._init(context)
        variant: Variant = context.variant
        n = trace.n_steps
        ranks = trace.quality if trace.ranks is None else trace.ranks
        stream = (
            trace.indptr,
            trace.items,
            trace.quality,
            ranks,
            trace.arrivals,
            trace.weight,
            trace.sizes,
        )
        config = np.array(
            [
                min(context.capacity, MOST_ROOM),
                variant.top_k,
                aggregator_code(variant),
                trace.quality_scale,
                utility_scale(trace.quality_scale, variant),
                _touch_units(self.touch, trace.quality_scale),
                int(self.admit == "miss"),
                int(trace.ranks is not None),
                int(trace.structure.requests),
                int(trace.structure.unit_sizes),
            ],
            np.int64,
        )
        # every insertion has a step of its own, and no more can leave than entered
        leave_ptr, enter_ptr = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
        leave_items, enter_items = np.empty(n, np.int32), np.empty(n, np.int32)
        log = (leave_ptr, leave_items, enter_ptr, enter_items)
        left, entered = self.kernel.run(state, context.rng, stream, config, log)
        if left < 0:
            step, item = -1 - left, entered
            rule = 5 if item == trace.arrivals[step] else 2 if 0 <= item < trace.n_items else 1
            raise InvalidSchedule(step, item, RULES[rule])
        return Schedule.adopt(leave_ptr, leave_items[:left], enter_ptr, enter_items[:entered])
