"""Named workload families, each a pure function of its parameters and a seed, each with what it forces."""

from adversaries.families.cycling import cycling
from adversaries.families.piecewise import noise_floor, piecewise
from adversaries.families.pollution import pollution
from adversaries.families.registry import (
    FamilyInfo,
    Parameter,
    families,
    family_info,
    family_names,
    make_trace,
)
from adversaries.families.uniform_blocks import uniform_blocks
from adversaries.families.working_set_sweep import sweep_phases, working_set_sweep

__all__ = [
    "FamilyInfo",
    "Parameter",
    "cycling",
    "families",
    "family_info",
    "family_names",
    "make_trace",
    "noise_floor",
    "piecewise",
    "pollution",
    "sweep_phases",
    "uniform_blocks",
    "working_set_sweep",
]
