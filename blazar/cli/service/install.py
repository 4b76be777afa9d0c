"""`blazar service install`: have systemd run the daemon from now on."""

import argparse
import os
import pwd
import tempfile
from contextlib import suppress
from pathlib import Path

from blazar.cli.command import Command
from blazar.cli.context import Context
from blazar.errors import ServiceRefused


class Install(Command):
    name = "install"
    help = "Have systemd run the daemon from now on"
    about = ("Works with systemd on this machine. As root, for the machine: the unit of the system's package, or one "
             "in /etc/systemd/system that runs this very Blazar as the user blazar. Otherwise for you, in "
             "~/.config/systemd/user. It is started at once, and at each boot or login.")
    examples = ("blazar service install", "sudo blazar service install", "blazar service install --no-start")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--no-start", action="store_true", help="only at the next boot or login")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.service.systemd import UNIT, find, packaged
        from blazar.cli.service.unit import own_command, own_environment, template, unit
        manager, shipped = find(context.env, to_install=True), packaged()
        if shipped and manager.of_user:
            raise ServiceRefused(reason=f"the system's package has brought {shipped}",
                                 remedy="`sudo blazar service install` has the machine run it")
        if shipped:
            context.out.line(f"using {shipped}")
        else:
            if not manager.of_user:
                see_that_it_can_run(own_command()[0], str(own_environment().get("PYTHONPATH", "")))
            file = manager.folder / UNIT
            _write(file, unit(template(), own_command(), own_environment(), manager.of_user))
            context.out.line(f"wrote {file}")
            manager.run("daemon-reload")
        manager.run("enable", *([] if args.no_start else ["--now"]), UNIT)
        context.out.line("enabled" if args.no_start else "enabled and started; `blazar service status` tells how it is")
        if manager.of_user:
            context.out.note("it ends when you log out, unless `loginctl enable-linger` lets it stay")
        return 0


def see_that_it_can_run(*places: str) -> None:
    """The machine's service runs as a user of its own and sees nobody's home."""
    hidden = next((place for place in places if place.startswith(("/home/", "/root/", "/run/user/"))), None)
    if hidden:
        raise ServiceRefused(reason=f"{hidden} lies in somebody's home, which a service of the machine does not see",
                             remedy="install Blazar elsewhere, such as /opt/blazar, or run this as yourself")
    try:
        pwd.getpwnam("blazar")
    except KeyError:
        raise ServiceRefused(
            reason="there is no user blazar, as whom the service runs",
            remedy="`useradd --system --home-dir /var/lib/blazar --groups video,render blazar` makes it") from None


def _write(file: Path, text: str) -> None:
    """Whole or not at all, and never over somebody else's unit."""
    from blazar.cli.service.unit import MARK
    if file.exists() and not file.read_text(encoding="utf-8", errors="replace").startswith(MARK):
        raise ServiceRefused(reason=f"{file} was not written by `blazar service install`",
                             remedy="move it away, or keep it and use systemctl")
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), 0o644)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise
