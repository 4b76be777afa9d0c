"""The command line as a whole: what it imports, how errors end, what help says."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from blazar import __version__
from blazar.cli.main import VERBS, get_parser, main, parse

BLAZAR = [sys.executable, "-m", "blazar.cli.main"]
HEAVY = ("falcon", "gevent", "peewee", "gunicorn", "requests", "urllib3", "psutil", "jsonschema", "tomlkit", "toml",
         "blazar.config.registry", "blazar.store.store")


@pytest.fixture
def env(tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BLAZAR_", "XDG_"))}
    return {**kept, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "XDG_DATA_HOME": str(tmp_path / "data")}


def run(env, *arguments, **more):
    return subprocess.run([*BLAZAR, *arguments], env=env, capture_output=True, text=True, timeout=30, **more)


def test_version_imports_nothing_heavy(env):
    code = ("import sys, blazar.cli.main as m\n"
            "try: m.main(['--version'])\n"
            "except SystemExit as end: assert end.code == 0\n"
            f"print(sorted(set({HEAVY!r}) & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=30)
    assert done.stdout == f"blazar {__version__}\n[]\n", done.stderr


def test_without_a_verb_help_is_printed(env):
    done = run(env)
    assert done.returncode == 0
    for command in VERBS:
        assert command.name in done.stdout and command.help in " ".join(done.stdout.split())


@pytest.mark.parametrize("command", VERBS, ids=lambda command: command.name)
def test_every_verb_has_help_and_examples_that_parse(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command.name, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert command.examples
    for example in command.examples:
        assert f"  {example}" in text
        words = shlex.split(example.partition(" < ")[0].partition(" | ")[0].partition(" > ")[0])
        assert words[0] == "blazar"
        assert parse(words[1:]).command.name == command.name


@pytest.mark.parametrize("command", VERBS, ids=lambda command: command.name)
def test_aliases_lead_to_the_verb(command):
    needed = {"pull": ["x"], "show": ["x"], "run": ["x"], "stop": ["x"], "rm": ["x"], "config": ["list"]}
    for alias in command.aliases:
        assert get_parser().parse_args([alias, *needed.get(command.name, [])]).command is command


@pytest.mark.parametrize("argv", [["--data-dir", "/x", "list"], ["list", "--data-dir", "/x"],
                                  ["--data-dir", "/y", "list", "--data-dir", "/x"],
                                  ["config", "list", "--data-dir", "/x"], ["config", "--data-dir", "/x", "list"]])
def test_places_stand_before_or_after_the_verb(argv):
    args = get_parser().parse_args(argv)
    assert (args.data_dir, args.config) == ("/x", None)


@pytest.mark.parametrize(("argv", "words", "found"), [
    (["run", "m", "--seed", "1", "Hello", "you"], "prompt", ["Hello", "you"]),
    (["run", "m", "Hello", "--seed", "1", "you"], "prompt", ["Hello", "you"]),
    (["run", "--seed", "1", "m", "Hello"], "prompt", ["Hello"]), (["run", "m", "--seed", "1"], "prompt", []),
    (["rm", "a", "--data-dir", "/x", "b", "c"], "models", ["a", "b", "c"])])
def test_options_may_stand_between_words(argv, words, found):
    assert getattr(parse(argv), words) == found


@pytest.mark.parametrize("argv", [["list", "m"], ["stop", "a", "b"], ["run", "m", "Hello", "--sed", "1"], ["--sed"]])
def test_what_no_verb_takes_is_bad_usage(argv, capsys):
    with pytest.raises(SystemExit) as end:
        parse(argv)
    assert end.value.code == 2 and "unrecognized arguments" in capsys.readouterr().err


def test_an_unknown_verb_is_bad_usage(env):
    done = run(env, "lst")
    assert done.returncode == 2
    assert "lst" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(("argv", "words"), [
    (["lst"], "there is no 'lst'; did you mean list?"),
    (["keys", "ad", "ann"], "there is no 'ad'; did you mean add?"),
    (["engine", "build", "gpu"], "there is no 'gpu'; there is cpu, cuda"),
])
def test_what_was_probably_meant_is_told(argv, words, capsys):
    with pytest.raises(SystemExit):
        parse(argv)
    assert words in capsys.readouterr().err


def test_an_error_is_one_line_and_an_exit_code(env):
    done = run({**env, "BLAZAR_HOST": "127.0.0.1:9"}, "ps")
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr == ("blazar: no daemon answers at http://127.0.0.1:9; start one with `blazar serve`, or set "
                           "BLAZAR_HOST to where it runs\n")


def test_a_bad_target_is_bad_usage(env):
    done = run({**env, "BLAZAR_HOST": "127.0.0.1:http"}, "ps")
    assert done.returncode == 2
    assert "write host:port" in done.stderr and "Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_error(env):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([*BLAZAR, "--help"], env=env, stdout=writing, stderr=subprocess.PIPE, timeout=30)
    finally:
        os.close(writing)
    assert done.stderr == b""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams_are_stood_in_for(env, closed):
    """And nothing that is opened later, such as a listener, takes the number of one of them."""
    code = ("import os, sys, blazar.cli.main as m\n"
            "code = m.main(['config', 'get', 'port'])\n"
            "with open(sys.argv[1], 'w') as file: print(code, file.fileno() > 2, file=file)")
    told = env["HOME"] + "/told"
    done = subprocess.run(["sh", "-c", f'exec "$0" -c "$1" "$2" {closed}', sys.executable, code, told], env=env,
                          capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    assert Path(told).read_text() == "0 True\n"


def test_input_that_is_no_text_does_not_end_in_a_traceback(env):
    strict = {**env, "PYTHONIOENCODING": "utf-8:strict", "BLAZAR_HOST": "127.0.0.1:9"}
    done = subprocess.run([*BLAZAR, "run", "m"], env=strict, input=b"\xff\xfe", capture_output=True, timeout=30)
    assert done.returncode == 4
    assert b"Traceback" not in done.stderr


def test_a_disk_that_is_full_is_told(env):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*BLAZAR, "config", "list"], env=env, stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=30)
    assert done.returncode == 1
    assert done.stderr == "blazar: the system refused: [Errno 28] No space left on device\n"


def test_an_interrupt_while_modules_are_imported_is_quiet(tmp_path):
    """A stand-in for the package, interrupted at its import, under the real script."""
    (tmp_path / "blazar" / "cli").mkdir(parents=True)
    (tmp_path / "blazar" / "cli" / "main.py").write_text("raise KeyboardInterrupt\n")
    done = subprocess.run([sys.executable, "bin/blazar", "list"], env={**os.environ, "PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_man_page_can_be_built():
    manpage = pytest.importorskip("build_manpages.manpage")
    page = str(manpage.Manpage(get_parser()))
    assert page.upper().startswith(".TH BLAZAR")
    for command in VERBS:
        assert command.help in page
