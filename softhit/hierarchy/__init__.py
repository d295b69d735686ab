"""The memory hierarchy: a context window as L1, a vector store as L2, documents as L3.

>>> from softhit.hierarchy import Workspace, attach, context_hint
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from softhit.hierarchy.segment import Segment, digest_of

if TYPE_CHECKING:
    from softhit.hierarchy.allocator import ContextAllocator
    from softhit.hierarchy.documents import DocumentStore, Record, make_documents
    from softhit.hierarchy.graph import (
        acontext_of,
        attach,
        context_hint,
        context_of,
        recursion_limit,
        share,
    )
    from softhit.hierarchy.log import read_log
    from softhit.hierarchy.seeding import seed
    from softhit.hierarchy.semantic import SemanticCache
    from softhit.hierarchy.texts import Texts
    from softhit.hierarchy.tokens import make_counter
    from softhit.hierarchy.vectors import Vectors, make_vectors
    from softhit.hierarchy.view import View
    from softhit.hierarchy.workspace import Workspace
    from softhit.hierarchy.writeback import WriteBack

__all__ = [
    "ContextAllocator",
    "DocumentStore",
    "Record",
    "Segment",
    "SemanticCache",
    "Texts",
    "Vectors",
    "View",
    "Workspace",
    "WriteBack",
    "acontext_of",
    "attach",
    "context_hint",
    "context_of",
    "digest_of",
    "make_counter",
    "make_documents",
    "make_vectors",
    "read_log",
    "recursion_limit",
    "seed",
    "share",
]

# Looked up when first asked for: the policies' registry needs one module of this package, not all of them.
_HOMES = {
    "allocator": ("ContextAllocator",),
    "documents": ("DocumentStore", "Record", "make_documents"),
    "graph": ("acontext_of", "attach", "context_hint", "context_of", "recursion_limit", "share"),
    "log": ("read_log",),
    "seeding": ("seed",),
    "semantic": ("SemanticCache",),
    "texts": ("Texts",),
    "tokens": ("make_counter",),
    "vectors": ("Vectors", "make_vectors"),
    "view": ("View",),
    "workspace": ("Workspace",),
    "writeback": ("WriteBack",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
