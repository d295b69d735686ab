"""softhit: traces, schedules, policies and costs of caches with soft hits and switching costs."""

from softhit.build import (
    CosineClipped,
    Rescaled,
    Threshold,
    from_arrays,
    from_clusters,
    from_embeddings,
    from_requests,
    quality_rule,
)
from softhit.cost import cost, floor_units
from softhit.errors import (
    BudgetExhausted,
    Infeasible,
    InvalidInput,
    InvalidSchedule,
    MissingExtra,
    NotCertified,
    PolicyError,
    ReplayError,
    SofthitError,
    UnknownName,
)
from softhit.exact import Cost, as_fraction
from softhit.policies import Context, Decision, Observation, Policy, make_policy, policy_names
from softhit.schedule import Schedule
from softhit.simulate import Session, simulate
from softhit.trace import Structure, Trace
from softhit.variant import Variant
from softhit.verify import verify

__version__ = "0.1.0"

__all__ = [
    "BudgetExhausted",
    "Context",
    "CosineClipped",
    "Cost",
    "Decision",
    "Infeasible",
    "InvalidInput",
    "InvalidSchedule",
    "MissingExtra",
    "NotCertified",
    "Observation",
    "Policy",
    "PolicyError",
    "ReplayError",
    "Rescaled",
    "Schedule",
    "Session",
    "SofthitError",
    "Structure",
    "Threshold",
    "Trace",
    "UnknownName",
    "Variant",
    "__version__",
    "as_fraction",
    "cost",
    "floor_units",
    "from_arrays",
    "from_clusters",
    "from_embeddings",
    "from_requests",
    "make_policy",
    "policy_names",
    "quality_rule",
    "simulate",
    "verify",
]
