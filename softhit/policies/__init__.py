"""The policies under study: each is admission x eviction, one small file each, found by name."""

from softhit.policies import arc as arc
from softhit.policies import belady as belady
from softhit.policies import block_marking as block_marking
from softhit.policies import clock as clock
from softhit.policies import fifo as fifo
from softhit.policies import gated_lru as gated_lru
from softhit.policies import lfu as lfu
from softhit.policies import lirs as lirs
from softhit.policies import lru as lru
from softhit.policies import lru_k as lru_k
from softhit.policies import marking as marking
from softhit.policies import never as never
from softhit.policies import priority_lru as priority_lru
from softhit.policies import random as random
from softhit.policies import s3fifo as s3fifo
from softhit.policies import sieve as sieve
from softhit.policies import solar as solar
from softhit.policies import static_greedy as static_greedy
from softhit.policies import static_opt as static_opt
from softhit.policies import tinylfu as tinylfu
from softhit.policies import two_q as two_q
from softhit.policies.kernel import CompiledPolicy, Kernel
from softhit.policies.protocol import Context, Decision, Observation, Policy
from softhit.policies.registry import (
    PolicyInfo,
    make_policy,
    policy_info,
    policy_names,
    register,
    register_kernel,
    register_scheme,
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
    "register_scheme",
    "split_specs",
]
