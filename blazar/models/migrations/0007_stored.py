"""Answers that clients asked to have kept: chat completions and responses."""

_COLUMNS = """
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    model TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    size INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    input TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (owner, id)
"""

STATEMENTS = tuple(statement for table in ("completion", "response") for statement in (
    f"CREATE TABLE {table} ({_COLUMNS})",
    f"CREATE INDEX {table}_size ON {table} (owner, number, size)",
    f"CREATE INDEX {table}_expires_at ON {table} (expires_at)",
))
