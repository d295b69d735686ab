"""A cache in a process of its own: LRU behind softhit's line protocol, with the standard library only."""

import json
import sys
from collections import OrderedDict


def say(**fields: object) -> None:
    """Answer with one line, at once."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read lines until the goodbye or the end of the input."""
    cache: OrderedDict[int, None] = OrderedDict()  # the least recently used item comes first
    capacity = 0
    for line in sys.stdin:
        said = json.loads(line)
        if "v" in said:  # hello: begin, or begin again
            capacity = said["capacity"]
            cache.clear()
            if said["sizes"] is not None:
                say(unsupported="this cache knows items of size 1 only")
                return
            say(v=1, name="example LRU", ahead=256, restart=True)
        elif "t" in said:  # a step: first the query, then the arrival
            evict, admit = [], []
            if said["weight"] > 0 and said["query"] in cache:
                cache.move_to_end(said["query"])
            item = said["arrival"]
            if item >= 0 and item not in cache:
                if len(cache) == capacity:
                    evict.append(cache.popitem(last=False)[0])
                cache[item] = None
                admit.append(item)
            say(t=said["t"], evict=evict, admit=admit)
        else:  # bye
            return


if __name__ == "__main__":
    main()
