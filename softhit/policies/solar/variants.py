"""The SOLAR family by name: every variant is one admission rule times one eviction rule.

=================  ===========  ===========  ==========================================================
name               admission    eviction     what it shows
=================  ===========  ===========  ==========================================================
solar              regret       Thompson     the default; see docs/solar.md for how it was chosen
solar_paper        global       Thompson     the paper's wording: one counter of cost, average cost as
                                             threshold, a posterior without discount and failures
solar_admission    regret       FIFO         admission alone
solar_eviction     always       Thompson     eviction alone
solar_mean         regret       mean         no exploration: evicts the lowest posterior mean
=================  ===========  ===========  ==========================================================

>>> from softhit import cost, from_requests, simulate
>>> trace = from_requests([t % 5 for t in range(500)])   # a cycle over K + 1 items
>>> lru = [float(cost(simulate(p, trace, 4, 1), trace, 4, 1)) for p in ("fifo", "solar")]
>>> lru[0], lru[1] < 0.45 * lru[0]
(996.0, True)
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from softhit.check import unknown
from softhit.policies.kernel import CompiledPolicy, Kernel
from softhit.policies.registry import PolicyInfo, register
from softhit.policies.solar.rule import decide, init, run, serve

__all__ = ["SETTABLE"]

_GATE = ("xi_low", "xi_high", "memory")
_POSTERIOR = ("horizon", "prior", "evidence", "memory")


def _register(
    name: str, summary: str, admission: str, eviction: str, settable: tuple[str, ...], forgetful: bool = True
) -> None:
    start = partial(init, admission=admission, eviction=eviction, forgetful=forgetful)
    kernel = Kernel(name, start, serve, decide, run, sizes=True)

    def factory(touch: str = "retrieved", admit: str = "arrival", **parameters: Any) -> CompiledPolicy:
        for parameter in parameters:
            if parameter not in settable:
                unknown(f"parameter of policy {name!r}", parameter, [*settable, "touch", "admit"])
        return CompiledPolicy(kernel, parameters, touch=touch, admit=admit)

    taken = inspect.signature(init).parameters
    register(
        PolicyInfo(
            name,
            summary,
            factory,
            admission=admission,
            eviction=eviction,
            deterministic=False,
            sizes=True,
            parameters={
                **{parameter: taken[parameter].default for parameter in settable},
                "touch": "retrieved",
                "admit": "arrival",
            },
        )
    )


SETTABLE = tuple(dict.fromkeys(_GATE + _POSTERIOR))
_register("solar", "regret gate, Thompson eviction", "regret", "thompson", SETTABLE)
_register("solar_paper", "SOLAR as the paper words it", "global", "thompson", ("memory",), forgetful=False)
_register("solar_admission", "SOLAR's gate with FIFO eviction", "regret", "fifo", _GATE)
_register("solar_eviction", "SOLAR's eviction without a gate", "always", "thompson", _POSTERIOR)
_register("solar_mean", "SOLAR with the posterior mean for a draw", "regret", "mean", SETTABLE)
