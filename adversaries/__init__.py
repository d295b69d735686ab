"""Workloads that hurt: named families, live adversaries, exact games, search and shrinking."""

from adversaries.families import FamilyInfo, family_info, family_names, make_trace

__all__ = ["FamilyInfo", "family_info", "family_names", "make_trace"]
