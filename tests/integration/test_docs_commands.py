"""Every command in the blocks of README.md, CONTRIBUTING.md and docs/ is run: here, in order, with a real daemon and a
stub engine, or by a test of its page; what cannot be run in a test is listed here, with the reason."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from blazar.cli.main import get_parser
from tests.support.bash import Bash
from tests.support.needs import need
from tests.support.pages import PAGES, ROOT, fits, steps
from tests.support.shell import StubShell, free_port
from tests.support.stub_model import install_stub

PAGES_OF_THEIR_OWN = {
    # page: the test that runs its commands
    "docs/engines.md": "test_docs_engines.py", "docs/keys.md": "test_docs_keys.py",
    "docs/models.md": "test_docs_models.py", "docs/requests.md": "test_docs_requests.py",
    "docs/tools.md": "test_docs_tools.py",
}
NOT_RUN = (
    # a pattern for whole commands, why no test runs them so, and the file that does what they do
    (r"make (run|test|lint|test-engines|test-frameworks)( +#.*)?", "whole suites, which include this one", "Makefile"),
    (r"sudo apt-get (install|build-dep) [\w./ -]+", "changes the machine", "tools/package_check.sh"),
    (r"dpkg-buildpackage --build=binary --unsigned-changes", "takes minutes", "tools/package_check.sh"),
    (r"sudo systemctl (reload nginx|daemon-reload && sudo systemctl restart blazar)", "there is no systemd in a test",
     "tools/package_check.sh"),
    (r"systemd-analyze security blazar", "asks a running systemd", "tests/unit/cli/service/test_unit.py"),
    (r"sudo editor /etc/nginx/\S+|sudo nginx -t", "nginx is started with other ports", "tests/support/nginx_site.py"),
    (r"python3 -m venv /opt/blazar|/opt/blazar/bin/pip .*", "installs from PyPI", "tools/venv.py"),
    (r"/opt/blazar/bin/blazar service install", "writes a unit", "tests/unit/cli/service/test_service.py"),
    (r"sudo -u blazar blazar engine update", "downloads", "tests/integration/test_engine_update.py"),
    (r"sudo -u blazar blazar pull smollm2-135m", "downloads", "tests/integration/test_pull.py"),
    (r"blazar pull qwen3-embedding-0.6b|curl \S+/v1/embeddings .*", "wants a model that embeds",
     "tests/integration/test_embeddings.py"),
    (r"blazar fit qwen3-8b", "wants that model", "tests/integration/test_fit.py"),
    (r"blazar rpc (worker|status) .*", "wants an engine with RPC", "tests/probe/test_rpc_workers.py"),
)
SYSTEMCTL = re.compile(r"sudo systemctl (start|stop|restart) blazar")
SUDO = """#!/bin/sh
[ "$1" = -u ] && shift 2
exec "$@"
"""
ACTIVE = "LoadState=loaded\nActiveState=active\nSubState=running\nMainPID=4711\n"


class Machine(StubShell):
    """A machine as the pages know it: a service, /etc/blazar and /var/lib/blazar, of which each lies in a folder of the
    test, and the programs that take root."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "home")
        install_stub(self.paths, "smollm2-135m", folder)
        self.port = free_port()
        self.config.write_text(f"# of this machine\nport = {self.port}\n")
        self.url = f"http://127.0.0.1:{self.port}"
        self.places = {"/usr/share/doc/blazar/examples": _folder(folder, "examples"),
                       "/etc/nginx": _folder(folder, "nginx"),
                       "/var/backups": _folder(folder, "backups"), "/srv": _folder(folder, "srv"),
                       "/etc/systemd/system": folder / "systemd", "/etc/blazar": self.config.parent,
                       "/var/lib/blazar": self.paths.data_dir, "http://127.0.0.1:11435": self.url,
                       "127.0.0.1:11435": f"127.0.0.1:{self.port}", "curl ": "curl -sS --fail-with-body "}
        for line in (ROOT / "debian" / "blazar.examples").read_text().split():
            shutil.copy(ROOT / line, folder / "examples")
        for name in ("sites-available", "sites-enabled"):
            _folder(folder, f"nginx/{name}")
        programs = _folder(folder, "bin")
        stub = (ROOT / "tests" / "stubs" / "stub_systemctl.py").read_text()
        for name, text in {"blazar": f'#!/bin/sh\nexec {sys.executable} -m blazar.cli.main "$@"\n', "sudo": SUDO,
                           **dict.fromkeys(("systemctl", "journalctl"), f"#!{sys.executable}\n{stub}")}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        (programs / "systemctl.json").write_text(f'{{"show": {ACTIVE!r}}}'.replace("'", '"'))
        self.env |= {"PATH": f"{programs}:{self.env['PATH']}", "BLAZAR_SYSTEMCTL": str(programs / "systemctl")}
        self.find_engine()
        self.bash = Bash(self.env)

    def systemctl(self, action: str) -> None:
        """What systemd would do with the service."""
        if action in ("stop", "restart"):
            self.stop()
        if self.daemon is None and action != "stop":
            self.serve(self.port)

    def run(self, command: str) -> tuple[str, int]:
        for place, ours in self.places.items():
            command = command.replace(place, str(ours))
        return self.bash(command)

    def close(self) -> None:
        self.bash.close()
        self.stop()


def _folder(folder: Path, name: str) -> Path:
    (folder / name).mkdir(parents=True)
    return folder / name


def not_run(command: str) -> str | None:
    """The pattern of NOT_RUN that the whole command is of."""
    return next((pattern for pattern, *_ in NOT_RUN if re.fullmatch(pattern, command)), None)


HERE = [page for page in PAGES if page not in PAGES_OF_THEIR_OWN
        and any(not_run(step.command) is None for step in steps(page))]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", HERE)
def test_the_commands_of_the_page(page, tmp_path):
    need("curl")
    machine = Machine(tmp_path)
    try:
        machine.systemctl("start")
        for step in steps(page):
            if not_run(step.command) is not None:
                continue
            if action := SYSTEMCTL.fullmatch(step.command):
                machine.systemctl(action[1])
                continue
            said, code = machine.run(step.command)
            where = f"{page}, line {step.line}: $ {step.command}\n{said}"
            assert code == 0 and "Traceback" not in said, where
            assert not step.printed.strip() or fits(step.printed, said), f"{where}\n--- the page says:\n{step.printed}"
    finally:
        machine.close()


def test_no_list_here_is_longer_than_it_must_be():
    commands = [step.command for page in PAGES for step in steps(page)]
    assert {not_run(command) for command in commands} - {None} == {pattern for pattern, *_ in NOT_RUN}
    assert [file for *_, file in NOT_RUN if not (ROOT / file).exists()] == []
    for page, test in PAGES_OF_THEIR_OWN.items():
        assert steps(page) and Path(page).name in (ROOT / "tests" / "integration" / test).read_text(), page


def test_commands_are_found():
    assert len(HERE) >= 5 and sum(len(steps(page)) for page in HERE) > 60


@pytest.mark.parametrize("page", (*PAGES, "ARCHITECTURE.md"))
def test_commands_within_sentences_are_understood(page, capsys):
    """By the parser of the command line; where a verb alone is mentioned, what belongs to it may be missing."""
    prose = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    for command in set(re.findall(r"`(?:sudo (?:-u blazar )?)?blazar ([^`]+)`", prose)) - {"VERB --help"}:
        try:
            get_parser().parse_args(shlex.split(command))
        except SystemExit as error:
            said = capsys.readouterr().err
            assert not error.code or "are required" in said or "expected one argument" in said, f"{command}: {said}"
