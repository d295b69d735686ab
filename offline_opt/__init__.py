"""Offline optima: exact where the instance allows it, a certified bracket where it does not."""

from offline_opt.facade import METHODS, method_names, solve
from offline_opt.result import OptResult, Status

__all__ = ["METHODS", "OptResult", "Status", "method_names", "solve"]
