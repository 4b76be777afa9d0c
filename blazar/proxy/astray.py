"""What is said to who asks for a path that nothing is served at: mostly `/v1` is missing, or is there twice."""

from difflib import get_close_matches

from blazar.proxy.routes import ROUTES

LONGEST = 100
"""Characters of a path that is compared with those of the table."""


def instead_of(path: str) -> str:
    """The path that was probably meant, or where all of them are described."""
    near = _near(path.rstrip("/")) if len(path) <= LONGEST else None
    return f"did you mean {near}?" if near is not None and near != path else "/openapi.json describes every path"


def _near(path: str) -> str | None:
    known = [known for known in dict.fromkeys(route.path for route in ROUTES) if known != "/" and "{" not in known]
    longer = [one for one in known if path and one.endswith(path)]
    shorter = [one for one in known if path.endswith(one)]
    found = longer or sorted(shorter, key=len, reverse=True) or get_close_matches(path, known, n=1, cutoff=0.8)
    return found[0] if found else None
