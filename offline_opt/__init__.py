"""Offline optima: exact where the instance allows it, a certified bracket where it does not."""

from offline_opt.result import OptResult, Status
from offline_opt.solve import METHODS, method_names, solve

__all__ = ["METHODS", "OptResult", "Status", "method_names", "solve"]
