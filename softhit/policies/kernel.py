"""The compiled form of a policy: two functions on a state, one loop, and a step-by-step face.

A policy file writes ``init`` (Python) and three compiled functions; see CONTRIBUTING for a template.

``serve(state, rng, t, got, quality, n, utility, weight)``
    Called at every step with weight > 0: ``got[:n]`` are the retrieved items that count as touched, in rank
    order, ``quality[:n]`` their units of 1/quality_scale; ``n = 0`` on a miss. ``utility`` in units of
    1/utility_scale.
``decide(state, rng, t, item, quality, utility, weight, size, free, out)``
    Called when the step's arrival is not held and fits the capacity at all. ``quality`` is the arrival's
    for this step's query, in units of 1/utility_scale. Returns -1 (do not admit) or m >= 0 (admit, after
    evicting ``out[:m]``, which must make room).
``run(state, rng, stream, config, log)``
    ``return replay(serve, decide, state, rng, stream, config, log)``: the batch loop, compiled per policy.

The step-by-step path calls the same ``serve`` and ``decide``, so a rule exists once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import check_choice, check_real, fail
from softhit.errors import InvalidInput
from softhit.jit import template
from softhit.policies.protocol import Context, Decision, Observation
from softhit.retrieval import aggregator_code, retrieve, utility, utility_scale
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["CompiledPolicy", "Kernel", "replay"]

State = tuple[NDArray[Any], ...]


@template
def replay(serve: Any, decide: Any, state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Drive ``serve`` and ``decide`` through a whole trace; the batch loop of every compiled policy."""
    indptr, items, quality, ranks, arrivals, weight, sizes = stream
    leave_steps, leave_items, enter_steps, enter_items = log
    capacity = config[0]
    k = config[1]
    aggregator = config[2]
    scale = config[3]
    full = config[4]
    touch = config[5]
    on_miss = config[6] != 0
    scored = config[7] != 0
    simple = k == 1 and not scored and aggregator == 0
    per_unit = full // scale
    held = np.zeros(len(sizes), np.uint8)
    out = np.empty(min(capacity, len(sizes)) + 1, np.int32)
    got = np.empty(k, np.int32)
    worth = np.empty(k, np.int32)
    free = capacity
    left = 0
    entered = 0
    for t in range(len(arrivals)):
        e = arrivals[t]
        w = np.int64(weight[t])
        n = 0
        u = np.int64(0)
        own = np.int64(0)
        if w > 0:
            a = indptr[t]
            b = indptr[t + 1]
            if simple:
                top = np.int32(0)
                for x in range(a, b):
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
                    n = 1
            else:
                n = retrieve(a, b, items, quality, ranks, scored, held, k, got, worth)
                u = utility(worth, n, aggregator, scale)
                if e >= 0:
                    for x in range(a, b):
                        if items[x] == e:
                            own = np.int64(quality[x])
            if touch > 0:
                m = 0
                for j in range(n):
                    if worth[j] >= touch:
                        got[m] = got[j]
                        worth[m] = worth[j]
                        m += 1
                n = m
            serve(state, rng, t, got, worth, n, u, w)
        if e >= 0 and not held[e] and sizes[e] <= capacity and not (on_miss and (n > 0 or w == 0)):
            m = decide(state, rng, t, e, own * per_unit, u, w, sizes[e], free, out)
            if m >= 0:
                for j in range(m):
                    v = out[j]
                    held[v] = 0
                    free += sizes[v]
                    leave_steps[left] = t
                    leave_items[left] = v
                    left += 1
                held[e] = 1
                free -= sizes[e]
                enter_steps[entered] = t
                enter_items[entered] = e
                entered += 1
    return left, entered


@dataclass(frozen=True)
class Kernel:
    """The functions of one compiled policy (see the module docstring).

    Attributes
    ----------
    name : str
    init : callable
        ``init(context, **parameters) -> tuple of arrays``.
    serve, decide, run : compiled functions
    sizes : bool
        Whether the policy can handle sizes other than 1.
    """

    name: str
    init: Callable[..., State]
    serve: Callable[..., None]
    decide: Callable[..., int]
    run: Callable[..., tuple[int, int]]
    sizes: bool = False


def _touch_units(touch: str, scale: int) -> int:
    """Return the smallest quality, in units, that counts as a touch; 0 = whatever is retrieved."""
    if touch == "retrieved":
        return 0
    match = re.fullmatch(r"threshold\(([^()]+)\)", touch)
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
    clairvoyant: bool = False

    def __post_init__(self) -> None:
        check_choice("admit", self.admit, ["arrival", "miss"])
        _touch_units(self.touch, 1)
        self._state: State | None = None

    @property
    def name(self) -> str:
        """The name with the parameters that were set."""
        extra = [f"{k}={v}" for k, v in self.parameters.items()]
        extra += [f"touch={self.touch}"] if self.touch != "retrieved" else []
        extra += [f"admit={self.admit}"] if self.admit != "arrival" else []
        return self.kernel.name + (f"({', '.join(extra)})" if extra else "")

    def _init(self, context: Context) -> State:
        if not self.kernel.sizes and np.any(context.sizes != 1):
            raise InvalidInput(f"policy {self.kernel.name} handles unit sizes only")
        return self.kernel.init(context, **self.parameters)

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
            seen.free,
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
                min(context.capacity, 2**62),
                variant.top_k,
                aggregator_code(variant),
                trace.quality_scale,
                utility_scale(trace.quality_scale, variant),
                _touch_units(self.touch, trace.quality_scale),
                int(self.admit == "miss"),
                int(trace.ranks is not None),
            ],
            np.int64,
        )
        log = tuple(np.empty(n, np.int32) for _ in range(4))
        left, entered = self.kernel.run(state, context.rng, stream, config, log)
        return Schedule.from_events(n, log[0][:left], log[1][:left], log[2][:entered], log[3][:entered])
