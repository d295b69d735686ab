"""The backing store L3: a protocol, a SQLite file and a folder of files."""

from softhit.hierarchy.documents.protocol import DocumentStore, Record

__all__ = ["DocumentStore", "Record"]
