"""Named workload families, each a pure function of its parameters and a seed, each with what it forces."""

from adversaries.families.conversation import conversation
from adversaries.families.cycling import cycling
from adversaries.families.drift import drift
from adversaries.families.frequency_pollution import frequency_pollution
from adversaries.families.near_duplicates import near_duplicates
from adversaries.families.piecewise import noise_floor, piecewise
from adversaries.families.polarity import polarity
from adversaries.families.pollution import pollution
from adversaries.families.registry import (
    FamilyInfo,
    Parameter,
    families,
    family_info,
    family_names,
    make_trace,
)
from adversaries.families.scan_loop import scan_loop
from adversaries.families.uniform_blocks import uniform_blocks
from adversaries.families.working_set_sweep import sweep_phases, working_set_sweep

__all__ = [
    "FamilyInfo",
    "Parameter",
    "conversation",
    "cycling",
    "drift",
    "families",
    "family_info",
    "family_names",
    "frequency_pollution",
    "make_trace",
    "near_duplicates",
    "noise_floor",
    "piecewise",
    "polarity",
    "pollution",
    "scan_loop",
    "sweep_phases",
    "uniform_blocks",
    "working_set_sweep",
]
