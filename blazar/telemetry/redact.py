"""`scrub`: text that is shown to people, without mail addresses, secrets and IPv4 addresses (`pii_scrub`).

What looks like one is taken for one: too much is hidden rather than too little. Time is linear in the text, whatever
stands in it: each pattern begins only where no earlier match could have, and gives nothing back.
"""

import re
from collections.abc import Callable

LONGEST = 64 << 10
"""Characters of a text that are looked at and shown; the rest is cut off."""
CUT = "…"
SECRET, EMAIL, ADDRESS = "[secret]", "[email]", "[ip]"

_VALUE = r"[^\s\"'`,;&<>(){}\[\]]++"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_NAMES = (r"(?:api|access|private|auth|secret|session|refresh|client|aws|hf|x)?[_-]?"
          r"(?:key|token|secret|password|passwd|passphrase|pwd|credential)s?")
_MARKS = (
    # how the secrets of common services begin
    r"sk-", r"pk-", r"rk-", r"gsk_", r"nvapi-", r"xai-", r"hf_", r"r8_", r"npm_", r"glpat-", r"github_pat_", r"pypi-",
    r"gh[pousr]_", r"xox[abeoprs]-", r"[spr]k_(?:live|test)_", r"AKIA", r"ASIA", r"AIza", r"ya29\.", r"eyJ",
)

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # what is looked for, in this order, and what stands there instead
    (re.compile(r"(?i)\b((?:proxy-)?authorization[\"']?\s{0,9}[:=]\s{0,9}[\"']?(?:\w{1,20}\s{1,9})?)"
                r"(?:\[secret\]|" + _VALUE + ")"),
     rf"\1{SECRET}"),
    (re.compile(r"(?i)\b(bearer\s{1,9})(?=[^\s]{0,200}?[\d._~+/=-]|[^\s]{20})" + _VALUE), rf"\1{SECRET}"),
    (re.compile(r"(?<![A-Za-z0-9])(?:" + "|".join(_MARKS) + r")[A-Za-z0-9._~+/=-]{6,}+"), SECRET),
    (re.compile(r"(?i)(?<![A-Za-z0-9])(" + _NAMES + r"[\"']?\s{0,9}[:=]\s{0,9}[\"']?)(?!\[secret\])" + _VALUE),
     rf"\1{SECRET}"),
    (re.compile(r"(?<=://)[^\s/@?#]++@"), f"{SECRET}@"),
    (re.compile(r"(?<![\w.%+'-])[\w.%+'-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)+"), EMAIL),
    (re.compile(rf"(?<![\d.])(?:{_OCTET}\.){{3}}{_OCTET}(?!\d|\.\d)"), ADDRESS),
)


def scrub(text: str) -> str:
    """The text as it may be shown. What is longer than LONGEST loses its end, with the word that would be torn
    and the one before it, which may say what it is."""
    if len(text) > LONGEST:
        words = text[:LONGEST].rsplit(maxsplit=2)
        text = (words[0] if len(words) == 3 else "") + CUT
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return text


def scrubber(is_on: bool) -> Callable[[str], str]:
    """`scrub`, or what shows everything as it is."""
    return scrub if is_on else str

