"""Models of several files, and what is given with a model: system text, turns before a request's own."""

STATEMENTS = (
    "ALTER TABLE installed_model ADD COLUMN files TEXT",
    "ALTER TABLE installed_model ADD COLUMN system TEXT",
    "ALTER TABLE installed_model ADD COLUMN messages TEXT",
)
