"""What was measured: speeds of models on engine builds."""

STATEMENTS = (
    """
    CREATE TABLE measurement (
        id INTEGER NOT NULL PRIMARY KEY,
        subject TEXT NOT NULL,
        model TEXT NOT NULL,
        digest TEXT NOT NULL,
        engine TEXT NOT NULL,
        method TEXT NOT NULL,
        task TEXT NOT NULL,
        tokens INTEGER NOT NULL,
        rate REAL NOT NULL,
        deviation REAL NOT NULL,
        runs INTEGER NOT NULL,
        conditions TEXT NOT NULL,
        measured_at TEXT NOT NULL
    )
    """,
    "CREATE INDEX measurement_digest ON measurement (digest, subject)",
)
