"""Reading the query of a list: which part of it is wanted."""

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

from blazar.errors import RequestRefused
from blazar.proxy.dialects.fields import refuse

MOST = 100
"""Objects of one page."""
USUAL = 20
_PAIR = re.compile(r"metadata\[(.*)\]", re.DOTALL)


def fields(query: str) -> dict[str, str]:
    """The fields of a query string; of a repeated one the last counts. Raises RequestRefused."""
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=64, errors="replace"))
    except ValueError:
        raise RequestRefused("the query has more than 64 fields") from None


def limit(query: dict[str, str], usual: int = USUAL, most: int = MOST) -> int:
    """How many objects a page is to have."""
    return whole(query, "limit", usual, most)


def whole(query: dict[str, str], name: str, usual: int, most: int, least: int = 1) -> int:
    """The whole number in a field of the query."""
    asked = query.get(name, str(usual))
    if not (asked.isascii() and asked.isdigit() and len(asked) < 6 and least <= int(asked) <= most):
        refuse(name, f"a number from {least} to {most}", asked)
    return int(asked)


def switch(query: dict[str, str], name: str, usual: bool) -> bool:
    """A field of the query that is true or false."""
    asked = query.get(name, "true" if usual else "false")
    return asked == "true" if asked in ("true", "false") else refuse(name, "true or false", asked)


def newest_first(query: dict[str, str], usual: str) -> bool:
    """Whether the order is `desc`; `usual` is that of a query which does not say."""
    order = query.get("order", usual)
    return order == "desc" if order in ("asc", "desc") else refuse("order", "asc or desc", order)


def pairs(query: dict[str, str]) -> dict[str, str]:
    """The metadata that are wanted: `metadata[topic]=demo`."""
    return {found[1]: value for name, value in query.items() if (found := _PAIR.fullmatch(name))}


def part(found: Iterable[dict[str, Any]], query: dict[str, str], usual: str) -> tuple[list[dict[str, Any]], bool]:
    """Those of the parts of one object that are wanted, and whether more follow."""
    parts = list(found)
    if newest_first(query, usual):
        parts.reverse()
    after = query.get("after")
    if after is not None:
        places = [place for place, one in enumerate(parts) if one.get("id") == after]
        parts = parts[places[0] + 1:] if places else []
    most = limit(query)
    return parts[:most], len(parts) > most
