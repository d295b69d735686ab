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
    CacheFull,
    HierarchyError,
    Infeasible,
    InvalidInput,
    InvalidSchedule,
    MissingExtra,
    NotCertified,
    NotInL3Yet,
    PathInUse,
    PolicyError,
    ReplayError,
    SegmentTooLarge,
    SofthitError,
    Unavailable,
    UnknownName,
    VersionConflict,
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
    "CacheFull",
    "Context",
    "CosineClipped",
    "Cost",
    "Decision",
    "HierarchyError",
    "Infeasible",
    "InvalidInput",
    "InvalidSchedule",
    "MissingExtra",
    "NotCertified",
    "NotInL3Yet",
    "Observation",
    "PathInUse",
    "Policy",
    "PolicyError",
    "ReplayError",
    "Rescaled",
    "Schedule",
    "SegmentTooLarge",
    "Session",
    "SofthitError",
    "Structure",
    "Threshold",
    "Trace",
    "Unavailable",
    "UnknownName",
    "Variant",
    "VersionConflict",
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
