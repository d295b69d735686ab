"""Workloads that hurt: named families, live adversaries, exact games, search and shrinking."""
