"""Exchanges for tests that need no more of one than a few of its fields."""

from typing import Any

from blazar.proxy.exchange import Exchange


def exchange_of(id: str = "r", dialect: Any = None, operation: str = "chat", asked: str = "m", *, stream: bool = False,
                body: bytes = b"", payload: dict[str, Any] | None = None, **fields: Any) -> Exchange:
    """One with these fields, and every other as it is at first."""
    made = Exchange(id, dialect, operation, asked, stream, body, payload if payload is not None else {})
    for name, value in fields.items():
        assert hasattr(made, name) or name == "sink", name
        setattr(made, name, value)
    return made
