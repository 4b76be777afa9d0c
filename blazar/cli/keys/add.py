"""`blazar keys add`: a new API key. Its secret is printed once, and only its hash is kept."""

import argparse
from typing import Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.errors import UsageRefused

LIMITS = (
    # field of [[keys]], placeholder, what it says
    ("rpm", "N", "requests a minute"),
    ("tpm", "N", "tokens a minute, of prompts and answers together"),
    ("daily_tokens", "N", "tokens a day, which begins at midnight UTC"),
    ("max_concurrent", "N", "requests at the same time"),
    ("weight", "W", "share of a busy model, against the other keys; they have 1 if they do not say"),
)
PREFIX = "sk-blazar-"
"""How secrets begin, so that tools which look for leaked ones find them."""
SECRET_BYTES = 32
PUBLIC = (("alias", "name"), ("failover", "alias"), ("remotes", "name"))
"""Tables of the settings that give names to what callers may ask for, and the field that holds the name."""


class Add(Command):
    name = "add"
    help = "Make an API key, and print its secret once"
    about = ("Works on this machine's settings file: the hash of the secret is added to it, and all else stays as it "
             "is. Only the secret goes to stdout. A running daemon is told. The first key closes a server that was "
             "open: from then on every request needs a key.")
    examples = ("blazar keys add ann", "blazar keys add ci --model smollm2-135m --rpm 60 --max-concurrent 2",
                "blazar keys add batch --tpm 20000 --daily-tokens 1000000 --weight 0.5")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="how the key is called in logs, counts and these verbs")
        parser.add_argument("--model", dest="models", metavar="MODEL", action="append", default=[],
                            help="a model that it may use; may be given several times (otherwise all)")
        for field, placeholder, help in LIMITS:
            parser.add_argument(f"--{field.replace('_', '-')}", metavar=placeholder, help=help)
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        import hashlib
        import secrets

        from blazar.cli.keys.known import known, tell
        from blazar.config.edit_keys import add_key
        from blazar.config.tables.api_keys import HASHED
        keys = known(context)
        name = _checked("name", args.name)
        if name.lower() in (key.name.lower() for key in keys):
            raise UsageRefused(f"there is an API key called {name} already; choose another name, or take that one back "
                               f"first: `blazar keys revoke {name}`")
        limits = {field: _checked(field, getattr(args, field)) for field, _, _ in LIMITS}
        entry = {"name": name, **({"models": args.models} if args.models else {}),
                 **{field: value for field, value in limits.items() if value is not None}}
        for model in args.models:
            _look_for(model, context)
        secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        file = context.located.config_file
        add_key(file, {**entry, "key": HASHED + hashlib.sha256(secret.encode()).hexdigest()})
        if context.out.as_json:
            context.out.json({**entry, "key": secret, "file": str(file), "in_force": tell(context, name, here=True)})
            return 0
        context.out.line(secret)
        context.out.note(f"this is {name}'s API key. It is not shown again: {file} has only its hash")
        tell(context, name, here=True)
        if not keys:
            context.out.note("it is the first one: requests without a key are refused from then on; verbs such as "
                             "`blazar run` send the one in BLAZAR_API_KEY")
        return 0


def _checked(field: str, text: str | None) -> Any:
    """The value that the settings would take for `text`. Raises UsageRefused."""
    from blazar.config.refusal import Refusal
    from blazar.config.tables.api_keys import FIELDS
    if text is None:
        return None
    kind = next(one.type for one in FIELDS if one.name == field)
    try:
        return kind.parse(text)
    except Refusal as refusal:
        what = "NAME" if field == "name" else f"--{field.replace('_', '-')}"
        raise UsageRefused(f"{what}: {refusal.problem}; {refusal.remedy}") from None


def _look_for(model: str, context: Context) -> None:
    """Say so when nothing of that name is here: it may come later, or be a slip."""
    from blazar.errors import BlazarError
    names = [entry[field].lower() for table, field in PUBLIC for entry in context.config[table]]
    if model.lower() in names or model.lower().partition(":")[0] in names:
        return
    try:
        context.store.describe(model)
    except BlazarError as error:
        context.out.note(f"{error}; the key may use {model} once it is there")
