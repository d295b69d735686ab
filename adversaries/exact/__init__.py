"""Exact competitive ratios of finite-state policies, and the best any policy can have, for small K and N."""

from adversaries.exact.game import BestPolicy, GameValue, game_value
from adversaries.exact.machine import FiniteStatePolicy, Step
from adversaries.exact.machines import (
    FIFO,
    LRU,
    MACHINES,
    Clock,
    Difference,
    GatedGlobal,
    GatedLRU,
    make_machine,
)
from adversaries.exact.player import MachinePolicy
from adversaries.exact.ratio import ExactRatio, exact_ratio
from adversaries.exact.snapshot import Snapshot

__all__ = [
    "FIFO",
    "LRU",
    "MACHINES",
    "BestPolicy",
    "Clock",
    "Difference",
    "ExactRatio",
    "FiniteStatePolicy",
    "GameValue",
    "GatedGlobal",
    "GatedLRU",
    "MachinePolicy",
    "Snapshot",
    "Step",
    "exact_ratio",
    "game_value",
    "make_machine",
]
