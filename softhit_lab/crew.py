"""Processes that work through a list of calls: started, watched and ended so that none is left behind."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import joblib

from softhit.check import check_choice
from softhit.errors import MissingExtra

__all__ = ["BACKENDS", "call_all", "check_backend", "end_workers", "in_backend", "sigterm_as_ctrl_c"]

BACKENDS = ("loky", "dask", "ray")

_watched = threading.Event()


def check_backend(backend: str) -> None:
    """Refuse a backend whose library is not there."""
    check_choice("backend", backend, BACKENDS)
    library = {"dask": "distributed", "ray": "ray"}.get(backend)
    if library and importlib.util.find_spec(library) is None:
        raise MissingExtra(library, backend)


@contextlib.contextmanager
def in_backend(backend: str, jobs: int) -> Iterator[None]:
    """Choose where tasks run; dask uses the cluster that the environment names, or a local one."""
    if backend == "dask":
        from distributed import Client

        address = os.environ.get("DASK_SCHEDULER_ADDRESS")
        local = {"n_workers": jobs, "threads_per_worker": 1, "dashboard_address": None}
        client = Client(address) if address else Client(**local)
        with client, joblib.parallel_config(backend="dask", n_jobs=jobs):
            yield
        return
    if backend == "ray":
        from ray.util.joblib import register_ray

        register_ray()
    with joblib.parallel_config(backend=backend, n_jobs=jobs):
        yield


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Ignore Ctrl-C for a moment: processes started meanwhile ignore it for good, their parent tells them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Let a polite request to end, as batch systems send it, clean up as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old)


def _follow(parent: int) -> None:
    """End this process when its parent is gone, however it went."""
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(1.0)
    os._exit(1)


def _call_in_worker(parent: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with contextlib.suppress(ValueError):  # not in the main thread of a worker of another backend
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getppid() == parent and not _watched.is_set():
        _watched.set()
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    return function(*arguments)


def call_all(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], jobs: int) -> Iterator[Any]:
    """Call ``function`` on every tuple of arguments, in the backend in use; yield results as they come.

    With one job everything happens in this process. Close the iterator to end the work at once.
    """
    if jobs == 1:
        yield from (function(*x) for x in arguments)
        return
    calls = [joblib.delayed(_call_in_worker)(os.getpid(), function, x) for x in arguments]
    try:
        with _deaf():
            # one call at a time: what a batch has finished would be lost with the rest of it
            results = joblib.Parallel(return_as="generator_unordered", pre_dispatch="2*n_jobs", batch_size=1)(
                calls
            )
    except ValueError:  # a backend without generators: in batches, so that finished ones are recorded
        for start in range(0, len(calls), 4 * jobs):
            yield from joblib.Parallel()(calls[start : start + 4 * jobs])
        return
    try:
        yield from results
    finally:
        results.close()


def end_workers() -> None:
    """End the idle processes that are kept for the next call, and wait until they are gone."""
    from joblib.externals.loky import reusable_executor

    if reusable_executor._executor is not None:
        reusable_executor._executor.shutdown(wait=True, kill_workers=True)
