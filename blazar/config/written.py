"""How engines write some values otherwise than we do. None in place of a value means that no flag is given."""


def given(value: int) -> int | None:
    """A number whose 0 means "never", for an engine that is then told nothing."""
    return value or None


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def from_hundredths(value: int) -> float:
    return value / 100


def engine_load_mode(mode: str) -> str:
    return "dio" if mode == "direct-io" else mode


def named_tools(tools: bool | str) -> str | None:
    """`true` stands for all of them."""
    return "all" if tools is True else tools or None
