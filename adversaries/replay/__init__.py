"""Drive other people's caches through a trace and record what they held at every step.

:mod:`~adversaries.replay.line` runs any program as a policy, :mod:`~adversaries.replay.adapter` says what an
adapter to a library is, :mod:`~adversaries.replay.isolate` runs one in a process of its own.
"""

__all__: list[str] = []
