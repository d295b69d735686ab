"""All claims, in the order of their ids: one module of this package each."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from softhit.check import unknown
from theory.claim import Claim

__all__ = ["claim", "claim_ids", "claim_module", "claims", "is_claim_module"]

_MODULE = re.compile(r"([a-h])(\d+)_\w+\.py")


def is_claim_module(name: str) -> bool:
    """Tell whether a file of that name states a claim.

    >>> is_claim_module("c1_no_constant.py"), is_claim_module("claim.py")
    (True, False)
    """
    return _MODULE.fullmatch(name) is not None


@cache
def _modules() -> dict[str, str]:
    found = {}
    for path in Path(__file__).parent.glob("*.py"):
        if match := _MODULE.fullmatch(path.name):
            found[match[1].upper(), int(match[2])] = path.stem
    return {f"{letter}{number}": found[letter, number] for letter, number in sorted(found)}


def claim_ids() -> list[str]:
    """Return the ids of all claims: A1, A2, B1, ..."""
    return list(_modules())


def claim_module(name: str) -> ModuleType:
    """Return the module that states the claim of that id, in either case.

    Raises
    ------
    UnknownName
        There is no such claim.
    """
    wanted = name.upper()
    if wanted not in _modules():
        raise unknown("claim", name, claim_ids())
    return import_module(f"theory.{_modules()[wanted]}")


def claim(name: str) -> Claim:
    """Return the claim of that id; see `claim_module`."""
    found: Claim = claim_module(name).CLAIM
    return found


def claims() -> list[Claim]:
    """Return all claims, in the order of their ids."""
    return [claim(name) for name in claim_ids()]
