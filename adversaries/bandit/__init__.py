"""The eviction game of the regret claims: instances, policies in compiled loops, regret."""

from adversaries.bandit.game import POLICIES, Play, one_good, play

__all__ = ["POLICIES", "Play", "one_good", "play"]
