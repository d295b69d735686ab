"""A server that speaks as much of Qdrant's HTTP interface as the project uses, and lets local mode do it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models

ORDERINGS = {"weak", "medium", "strong"}
CONSISTENCIES = {"majority", "quorum", "all"}


class StandIn:
    """Executes requests one at a time; remembers what was asked, and can be told to fail."""

    def __init__(self, version: str = "1.20.0") -> None:
        self.client = QdrantClient(":memory:")
        self.version = version
        self.lock = threading.Lock()
        self.indexed: dict[str, set[str]] = {}
        self.asked: list[tuple[str, str]] = []
        self.keys: set[str | None] = set()
        self.failing = False

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict) -> object:
        for value in query.get("ordering", []):
            assert value in ORDERINGS, value
        for value in query.get("consistency", []):
            assert value in CONSISTENCIES, value
        if path == "/":
            return None
        _, _, name, *rest = path.split("/")
        what = (method, "/".join(rest))
        self.asked.append(what)
        do = self.client
        if what == ("GET", "exists"):
            return {"exists": do.collection_exists(name)}
        if what == ("PUT", ""):
            return do.create_collection(name, vectors_config=models.VectorParams(**body["vectors"]))
        if what == ("GET", ""):
            return do.get_collection(name)
        if what == ("PUT", "index"):
            assert body["field_schema"] == "integer"
            self.indexed.setdefault(name, set()).add(body["field_name"])
            return do.create_payload_index(name, body["field_name"], "integer")
        # what changes something is answered when it is done, not when it is noted
        if method == "PUT" or rest in (["points", "payload"], ["points", "delete"]):
            assert query["wait"] == ["true"]
        if what == ("PUT", "points"):
            asked = models.PointsList(**body)
            return do.upsert(
                name, asked.points, update_filter=asked.update_filter, update_mode=asked.update_mode
            )
        if what == ("POST", "points/payload"):
            change = models.SetPayload(**body)
            return do.set_payload(name, change.payload, points=change.points or change.filter)
        if what == ("POST", "points/delete"):
            return do.delete(name, points_selector=TypeAdapter(models.PointsSelector).validate_python(body))
        if what == ("POST", "points"):
            asked = models.PointRequest(**body)
            return do.retrieve(name, asked.ids, asked.with_payload, asked.with_vector)
        if what == ("POST", "points/count"):
            asked = models.CountRequest(**body)
            assert asked.exact
            return do.count(name, count_filter=asked.filter)
        if what == ("POST", "points/query"):
            asked = models.QueryRequest(**body)
            assert asked.params.exact
            return do.query_points(
                name,
                query=asked.query,
                limit=asked.limit,
                with_payload=asked.with_payload,
                score_threshold=asked.score_threshold,
            )
        if what == ("POST", "points/scroll"):
            asked = models.ScrollRequest(**body)
            if asked.order_by is not None:
                key = asked.order_by if isinstance(asked.order_by, str) else asked.order_by.key
                assert key in self.indexed.get(name, set()), f"no index for {key}"
                assert asked.offset is None
            points, offset = do.scroll(
                name,
                scroll_filter=asked.filter,
                limit=asked.limit,
                order_by=asked.order_by,
                offset=asked.offset,
                with_payload=asked.with_payload,
                with_vectors=asked.with_vector,
            )
            return {"points": points, "next_page_offset": offset}
        raise AssertionError(f"nobody taught it {method} {path}")


def _plain(value: object) -> object:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


@contextmanager
def serving(version: str = "1.20.0") -> Iterator[tuple[str, StandIn]]:
    """Serve on a free port of this machine; yield the URL and the stand-in."""
    stand_in = StandIn(version)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            parts = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, told = 200, {"status": "ok", "time": 0.0}
            try:
                with stand_in.lock:
                    stand_in.keys.add(self.headers.get("api-key"))
                    if stand_in.failing:
                        raise ConnectionError("told to fail")
                    result = stand_in.answer(
                        self.command, parts.path, parse_qs(parts.query), json.loads(raw or b"{}")
                    )
                    told["result"] = _plain(result)
                if parts.path == "/":
                    told = {"title": "a stand-in", "version": stand_in.version}
            except Exception as error:
                status, told = 500, {"status": {"error": repr(error)}, "time": 0.0}
            sent = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_PUT = do_POST = do_DELETE = _do

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", stand_in
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        stand_in.client.close()
