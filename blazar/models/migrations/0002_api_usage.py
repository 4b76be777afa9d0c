"""Requests and tokens of API keys."""

STATEMENTS = (
    """
    CREATE TABLE api_usage (
        key TEXT NOT NULL,
        day TEXT NOT NULL,
        requests INTEGER NOT NULL,
        prompt_tokens INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        PRIMARY KEY (key, day)
    )
    """,
)
