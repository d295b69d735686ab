"""Search for the requests that are worst for a policy, whatever it is."""

from adversaries.search.attack import Budget, Search
from adversaries.search.lasso import Lasso, lasso_of
from adversaries.search.objective import Objective, Value
from adversaries.search.report import Finding, choose_best, measure

__all__ = ["Budget", "Finding", "Lasso", "Objective", "Search", "Value", "choose_best", "lasso_of", "measure"]
