"""Files of clients, OpenAI's batches made of them, and the answers that a batch has so far."""

STATEMENTS = (
    """
    CREATE TABLE file (
        number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        purpose TEXT NOT NULL,
        size INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL
    )
    """,
    "CREATE INDEX file_owner ON file (owner, number, size)",
    "CREATE INDEX file_expires_at ON file (expires_at)",
    """
    CREATE TABLE batch (
        number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        state TEXT NOT NULL,
        input_file TEXT NOT NULL,
        body TEXT NOT NULL
    )
    """,
    "CREATE INDEX batch_owner ON batch (owner, number)",
    "CREATE INDEX batch_state ON batch (state, number)",
    """
    CREATE TABLE batch_answer (
        batch TEXT NOT NULL,
        line INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (batch, line)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX batch_answer_failed ON batch_answer (batch, failed)",
)
