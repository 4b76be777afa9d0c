"""Installed models, their other names, and the children that run."""

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
    """
    CREATE TABLE child (
        pid INTEGER NOT NULL PRIMARY KEY,
        start_time INTEGER NOT NULL,
        name TEXT NOT NULL,
        address TEXT NOT NULL,
        state TEXT NOT NULL
    )
    """,
)
