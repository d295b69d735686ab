"""Adapters to libraries, one module each, found by :func:`adversaries.replay.adapter.adapter_names`."""

__all__: list[str] = []
