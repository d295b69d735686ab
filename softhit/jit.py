"""The numba decorators of the project, with an on-disk cache that cannot go stale.

numba's own cache looks at the file that holds a function, not at the files whose functions are compiled
into it; an edited or upgraded helper would go unnoticed. Here the cache folder is named by a digest of
every in-house module the function's module imports, directly or not.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config as numba_config

__all__ = ["cache_folder", "jit", "lean", "template"]

F = TypeVar("F", bound=Callable[..., Any])

config: Any = numba_config

_HOUSE = ("softhit", "offline_opt", "adversaries", "theory", "softhit_lab")


def _base_folder() -> Path:
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR)
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(root) / "softhit" / "numba"


def _source(module: str) -> Path | None:
    found = sys.modules.get(module)
    if found is not None and getattr(found, "__file__", None):
        return Path(str(found.__file__))
    package, _, _ = module.partition(".")
    top = sys.modules.get(package)
    if top is None or not getattr(top, "__file__", None):
        return None
    base = Path(str(top.__file__)).parent.joinpath(*module.split(".")[1:])
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _read(path: Path, stamp: tuple[int, int]) -> tuple[bytes, frozenset[str]]:
    """Return the digest of a file that compiles something (else empty) and the in-house modules it names."""
    text = path.read_bytes()
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    compiles = any(mark in text for mark in (b"@jit", b"@lean", b"@template"))
    digest = hashlib.sha256(text).digest() if compiles else b""
    return digest, frozenset(n for n in names if n.split(".")[0] in _HOUSE)


def _fingerprint(module: str) -> str:
    seen: set[Path] = set()
    digests: list[bytes] = []
    todo = [module]
    while todo:
        path = _source(todo.pop())
        if path is None or path in seen:
            continue
        seen.add(path)
        stat = path.stat()
        digest, names = _read(path, (stat.st_mtime_ns, stat.st_size))
        if digest:
            digests.append(digest)
        todo.extend(names)
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()[:16]


def cache_folder(module: str) -> Path:
    """Return the folder that holds the compiled code of ``module``; it changes with the module's sources."""
    return _base_folder() / _fingerprint(module)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _compile(function: F, **options: Any) -> F:
    folder = cache_folder(function.__module__)
    if not _writable(folder):
        return cast(F, numba.njit(**options)(function))
    saved = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        return cast(F, numba.njit(cache=True, **options)(function))
    except RuntimeError:
        # numba finds no file to name the cache by: the function was typed in, not imported
        return cast(F, numba.njit(**options)(function))
    finally:
        config.CACHE_DIR = saved


def jit(function: F) -> F:
    """Compile ``function`` on first call (numba, nopython), cached on disk where the disk allows it."""
    return _compile(function, _nrt=True)


def lean(function: F) -> F:
    """Compile as :func:`jit` does, for functions that make no new arrays: without reference counting.

    Counting the references of a state tuple at every call can take ten times as long as a policy's own work.
    """
    return _compile(function, _nrt=False)


def template(function: F) -> F:
    """Inline ``function`` into its compiled callers, so that it can take compiled functions as arguments."""
    return cast(F, numba.njit(inline="always")(function))
