"""Whatever a file, a variable or a flag holds: the answer is a Config or a ConfigRefused."""

import random
import string

from blazar.config.load import load
from blazar.config.registry import GROUPS, SETTINGS, declared
from blazar.config.render import literal
from blazar.errors import ConfigRefused
from tests.support.config_files import document

NAMES = [*SETTINGS, *GROUPS, "sdcpp", "x", "", "ключ", "a.b", "__proto__"]
RAW = ["1979-05-27T07:32:00Z", "07:32:00", "nan", "-inf", "0x" + "f" * 4000, "1" * 400, "[[[[[]]]]]",
       "{a={b={c=[{}]}}}",
       "'''\n[gateway]\nport = 1\n'''", '"\\u0000"', '"\\U0010ffff"', "[1, 'a', 2.5, {}]", "-0", "1e400"]


def value(chance: random.Random, depth: int = 0) -> str:
    kind = chance.randrange(7 if depth < 3 else 4)
    if kind == 0:
        return chance.choice(RAW)
    if kind == 1:
        return literal(chance.choice([0, -1, 1, 2**31, 2**63, 2**70, 0.1, -1e300, True, False]))
    if kind in (2, 3):
        letters = string.printable + "üß\x7f模=,:;*[]{}"
        return literal("".join(chance.choice(letters) for _ in range(chance.randrange(12))))
    if kind in (4, 5):
        return f"[{', '.join(value(chance, depth + 1) for _ in range(chance.randrange(4)))}]"
    names = chance.sample([*NAMES, "name", "key", "url", "models", "command", "ctx", "targets"], chance.randrange(4))
    return "{" + ", ".join(f"{literal(name)} = {value(chance, depth + 1)}" for name in names) + "}"


def survives(file, env=None, flags=None):
    try:
        load(file, env or {}, flags or {})
    except ConfigRefused as error:
        assert str(error) and "Traceback" not in str(error)


def test_random_values(tmp_path):
    chance = random.Random(31)
    file = tmp_path / "config.toml"
    for _ in range(400):
        names = chance.sample(NAMES, 3)
        file.write_text("".join(f"{literal(name)} = {value(chance)}\n" for name in names))
        survives(file)


def test_random_values_of_each_field(tmp_path):
    chance = random.Random(32)
    file = tmp_path / "config.toml"
    for path, _ in declared():
        for _ in range(2):
            file.write_text(document(path, "@", {"name", "key", "url", "alias", "model"}).replace('"@"', value(chance)))
            survives(file)


def test_random_bytes(tmp_path):
    chance = random.Random(33)
    file = tmp_path / "config.toml"
    good = b'port = 1\n[[keys]]\nname = "me"\nkey = "s"\n[gateway]\nhost = "::1"\n[model_overrides.m]\nctx = 5\n'
    for _ in range(300):
        broken = bytearray(good)
        for _ in range(chance.randrange(1, 6)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        file.write_bytes(broken[:chance.randrange(len(broken))])
        survives(file)


def test_random_variables_and_flags(tmp_path):
    chance = random.Random(34)
    variables = [name for setting in SETTINGS.values() for name in setting.variables]
    for _ in range(300):
        text = "".join(chance.choice(string.printable + "٣ü") for _ in range(chance.randrange(10)))
        survives(tmp_path / "none", {chance.choice(variables): text})
        survives(tmp_path / "none", flags={chance.choice([*SETTINGS]): chance.choice([text, 5, True, [text], {}, 1.5])})
