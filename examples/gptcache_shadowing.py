"""Let a search find, from random vectors, where GPTCache misses what it holds, and make it small.

    python examples/gptcache_shadowing.py            # capacity 9, all settings its own
    python examples/gptcache_shadowing.py 20 1       # capacity 20, one eviction at a time; takes longer

GPTCache marks an evicted row as deleted and leaves its vector in the index until over a tenth of the rows
are marked. Its index returns one neighbour by default; if that one is marked, the answer is a miss, though a
live entry is within the threshold. Nothing here knows that: the search draws unit vectors, replays them, and
compares what GPTCache answers with what its own table holds.
"""

import sys

import numpy as np

from adversaries.replay.adapter import Ask, Setup, make_adapter
from adversaries.replay.isolate import AdapterPolicy
from adversaries.replay.record import replay
from softhit import MissingExtra, from_embeddings

THRESHOLD = 0.8  # cosine from which a stored entry should answer


def false_miss(points, capacity, options=""):
    """The first step at which GPTCache holds an entry within the threshold but answers with none, or -1."""
    adapter = make_adapter(f"gptcache(threshold={THRESHOLD}{options})")
    adapter.open(Setup(capacity, len(points), dimension=points.shape[1]))
    try:
        for t, vector in enumerate(points):
            held = sorted(adapter.held())
            answer = adapter.step(Ask(t, -1, 1, t, 1.0, vector, vector))
            # a hair above the threshold, so that no rounding decides
            if answer < 0 and np.any(points[held] @ vector > THRESHOLD + 1e-4):
                return t
    finally:
        adapter.close()
    return -1


def search(capacity, options="", seed=0, most=50):
    """Draw sequences of unit vectors until one has a false miss; return it and how many were tried."""
    rng = np.random.default_rng(seed)
    for tried in range(1, most + 1):
        points = rng.standard_normal((8 * capacity, int(rng.integers(3, 9)))).astype(np.float32)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        t = false_miss(points, capacity, options)
        if t >= 0:
            return points[: t + 1], tried
    raise SystemExit(f"no false miss in {most} sequences")


def shrink(points, capacity, options=""):
    """Leave out requests, many at a time and then one by one, until none can be left out."""
    size = len(points) // 2
    while size:
        start, smaller = 0, False
        while start < len(points):
            shorter = np.delete(points, slice(start, start + size), axis=0)
            t = false_miss(shorter, capacity, options)
            if t >= 0:
                points, smaller = shorter[: t + 1], True
            else:
                start += size
        # after a success, what could not go before may go now
        size = size if smaller else size // 2
    return points


def show(title, capacity, options=""):
    """Search, shrink, replay once more in a process of its own, and print what happened."""
    found, tried = search(capacity, options)
    small = shrink(found, capacity, options)
    last = len(small) - 1
    trace = from_embeddings(
        small,
        small,
        arrivals=np.arange(len(small)),
        rule=f"threshold({THRESHOLD})",
        candidates="arrived",
        keep_vectors=True,
    )
    policy = AdapterPolicy(f"gptcache(threshold={THRESHOLD}{options})")
    again = replay(policy, trace, capacity, switch_cost=0)
    assert again.answers is not None
    assert again.answers.silent == (last,)
    held = held_before(again.schedule, last)
    live = max(held, key=lambda i: small[i] @ small[last])
    dead = max(set(range(last)) - held, key=lambda i: small[i] @ small[last])
    print(f"{title}: capacity {capacity}, {again.client.name} {again.client.version}")
    print(f"  found in sequence {tried}, {len(found)} requests; no request of the {len(small)} left can go")
    near, nearer = small[live] @ small[last], small[dead] @ small[last]
    print(f"  request {last} is answered with none; entry {live} is held, at cosine {near:.3f};")
    print(f"  entry {dead} was evicted, at cosine {nearer:.3f}")
    remedy = false_miss(small, capacity, f"{options}, top_k=5") < 0
    print(f"  with five neighbours from the index: {'no false miss' if remedy else 'still a false miss'}")
    return len(small)


def held_before(schedule, step):
    """The items held before a step."""
    held = set()
    for t in range(step):
        leaves, enters = schedule.at(t)
        held -= {int(i) for i in leaves}
        held |= {int(i) for i in enters}
    return held


if __name__ == "__main__":
    try:
        if len(sys.argv) == 3:
            show(f"clean_size {sys.argv[2]}", int(sys.argv[1]), f", clean={sys.argv[2]}")
        else:
            show("all settings its own", capacity=9)
    except MissingExtra as missing:
        print(f"left out: {missing}", file=sys.stderr)
