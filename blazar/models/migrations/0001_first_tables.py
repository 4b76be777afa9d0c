"""Installed models and their other names."""

STATEMENTS = (
    """
    CREATE TABLE installed_model (
        name TEXT NOT NULL PRIMARY KEY,
        digest TEXT NOT NULL,
        size INTEGER NOT NULL,
        facts TEXT NOT NULL,
        source TEXT NOT NULL,
        license TEXT,
        parameters TEXT,
        template TEXT,
        installed_at TEXT NOT NULL
    )
    """,
    "CREATE INDEX installed_model_digest ON installed_model (digest)",
    """
    CREATE TABLE alias (
        name TEXT NOT NULL PRIMARY KEY,
        target TEXT NOT NULL
    )
    """,
)
