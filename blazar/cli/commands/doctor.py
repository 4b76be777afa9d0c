"""`blazar doctor`: look at what a daemon needs on this machine."""

import argparse

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context


class Doctor(Command):
    name = "doctor"
    help = "Check what a daemon needs on this machine"
    about = ("Works on this machine. Exits with 1 when a check fails; a warning alone does not count. --census FILE "
             "saves what is known of this machine, or, when FILE is there already, looks at the machine of which it "
             "tells.")
    examples = ("blazar doctor", "blazar doctor --json", "blazar doctor --census machine.json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--census", metavar="FILE", help="save this machine's census in FILE, or use the one there")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from dataclasses import asdict
        from pathlib import Path

        from blazar.cli.census import census_of
        from blazar.doctor.check import Surroundings, worst
        from blazar.doctor.checklist import examine
        elsewhere = args.census is not None and Path(args.census).exists()
        census = census_of(args.census, context.out, save=True)
        findings = examine(Surroundings(context.located, context.env, context.daemon, census, elsewhere))
        context.out.table(("CHECK", "STATE", "FOUND"),
                          [(finding.check, finding.state, finding.found) for finding in findings],
                          [asdict(finding) for finding in findings])
        for finding in findings:
            if finding.remedy and not args.json:
                context.out.line(f"\n{finding.check}: {finding.remedy}")
        return 1 if worst(findings) == "fail" else 0
