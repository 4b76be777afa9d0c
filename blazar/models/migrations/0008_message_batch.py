"""Batches of Anthropic messages, each with its requests and their results."""

STATEMENTS = (
    """CREATE TABLE message_batch (
        number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        requests INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        cancelled_at INTEGER,
        ended_at INTEGER
    )""",
    "CREATE INDEX message_batch_owner ON message_batch (owner, number)",
    "CREATE INDEX message_batch_open ON message_batch (number) WHERE ended_at IS NULL",
    """CREATE TABLE message_batch_request (
        batch INTEGER NOT NULL,
        position INTEGER NOT NULL,
        custom_id TEXT NOT NULL,
        outcome TEXT,
        size INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (batch, position)
    )""",
    "CREATE INDEX message_batch_request_open ON message_batch_request (batch, position) WHERE outcome IS NULL",
    "CREATE INDEX message_batch_request_size ON message_batch_request (batch, outcome, size)",
)
