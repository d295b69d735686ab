"""The backing store L3: a protocol, a SQLite file and a folder of files."""

from softhit.hierarchy.documents.folder import FolderDocuments
from softhit.hierarchy.documents.make import make_documents
from softhit.hierarchy.documents.protocol import DocumentStore, Record
from softhit.hierarchy.documents.sqlite import SqliteDocuments

__all__ = ["DocumentStore", "FolderDocuments", "Record", "SqliteDocuments", "make_documents"]
