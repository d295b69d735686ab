"""Every file format, in and out: traces, schedules, other people's request logs, texts."""

from softhit.io.files import data_path, replacing
from softhit.io.formats import FORMATS, Format, read_trace, write_trace
from softhit.io.locomo import locomo_counts, locomo_trace, read_locomo
from softhit.io.parquet import read_schedule_parquet as read_schedule
from softhit.io.parquet import schedule_metadata
from softhit.io.parquet import write_schedule_parquet as write_schedule
from softhit.io.stream import RequestWriter, convert_requests, request_chunks
from softhit.io.text import Embedder, HashedTfidf, WordLlamaEmbedder, make_embedder
from softhit.io.topics import topics_trace

__all__ = [
    "FORMATS",
    "Embedder",
    "Format",
    "HashedTfidf",
    "RequestWriter",
    "WordLlamaEmbedder",
    "convert_requests",
    "data_path",
    "locomo_counts",
    "locomo_trace",
    "make_embedder",
    "read_locomo",
    "read_schedule",
    "read_trace",
    "replacing",
    "request_chunks",
    "schedule_metadata",
    "topics_trace",
    "write_schedule",
    "write_trace",
]
