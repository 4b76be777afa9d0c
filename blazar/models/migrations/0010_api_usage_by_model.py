"""Requests and tokens of API keys, by model too; what was counted before has none."""

STATEMENTS = (
    "ALTER TABLE api_usage RENAME TO api_usage_by_day",
    """
    CREATE TABLE api_usage (
        key TEXT NOT NULL,
        day TEXT NOT NULL,
        model TEXT NOT NULL,
        requests INTEGER NOT NULL,
        prompt_tokens INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        PRIMARY KEY (key, day, model)
    )
    """,
    """
    INSERT INTO api_usage SELECT key, day, '', requests, prompt_tokens, completion_tokens FROM api_usage_by_day
    """,
    "DROP TABLE api_usage_by_day",
    "CREATE INDEX api_usage_day ON api_usage (day)",
)
