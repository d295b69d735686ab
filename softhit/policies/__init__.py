"""The policies under study: each is admission x eviction, one small file each, found by name."""

from softhit.policies import fifo as fifo
from softhit.policies.kernel import CompiledPolicy, Kernel
from softhit.policies.protocol import Context, Decision, Observation, Policy
from softhit.policies.registry import (
    PolicyInfo,
    make_policy,
    policy_info,
    policy_names,
    register,
    register_kernel,
    split_specs,
)

__all__ = [
    "CompiledPolicy",
    "Context",
    "Decision",
    "Kernel",
    "Observation",
    "Policy",
    "PolicyInfo",
    "make_policy",
    "policy_info",
    "policy_names",
    "register",
    "register_kernel",
    "split_specs",
]
