"""Never: fill, then hold what came first for ever.

No peer. It pays no switching cost, and on data where nothing serves better than 1 - f it is 1/f-competitive:
the vacuity against which raw ratios are read.
"""

from __future__ import annotations

from typing import Any

from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel


def init(context: Context) -> State:
    """Return a state that is never used."""
    return (context.sizes,)


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A hit changes nothing."""


@lean
def decide(
    state: Any,
    rng: Any,
    t: Any,
    item: Any,
    quality: Any,
    utility: Any,
    weight: Any,
    size: Any,
    free: Any,
    out: Any,
) -> Any:
    """Admit what fits."""
    return 0 if free >= size else -1


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("never", init, serve, decide, run, sizes=True)
register_kernel(KERNEL, "fill, then hold", admission="while it fits", eviction="never")
