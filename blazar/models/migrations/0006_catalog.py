"""Engine lanes for architectures that the main engine lacks: what the catalog offers, and what was made here."""

STATEMENTS = (
    """
    CREATE TABLE catalog (
        name TEXT NOT NULL PRIMARY KEY,
        summary TEXT NOT NULL,
        architectures TEXT NOT NULL,
        assets TEXT NOT NULL,
        superseded TEXT NOT NULL,
        offered INTEGER NOT NULL,
        curated INTEGER NOT NULL,
        since TEXT,
        seen_at TEXT NOT NULL
    )
    """,
)
