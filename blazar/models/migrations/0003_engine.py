"""Installed engine builds."""

STATEMENTS = (
    """
    CREATE TABLE engine (
        kind TEXT NOT NULL,
        tag TEXT NOT NULL,
        path TEXT NOT NULL,
        flavour TEXT NOT NULL,
        source TEXT NOT NULL,
        sha256 TEXT,
        installed_at TEXT NOT NULL,
        active INTEGER NOT NULL DEFAULT 0,
        pinned INTEGER NOT NULL DEFAULT 0,
        turn INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (kind, tag)
    )
    """,
)
