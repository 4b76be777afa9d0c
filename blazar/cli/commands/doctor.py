"""`blazar doctor`: look at what a daemon needs on this machine."""

import argparse

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context


class Doctor(Command):
    name = "doctor"
    help = "Check what a daemon needs on this machine"
    about = "Works on this machine. Exits with 1 when a check fails; a warning alone does not count."
    examples = ("blazar doctor", "blazar doctor --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from dataclasses import asdict

        from blazar.doctor.check import Surroundings, worst
        from blazar.doctor.checklist import examine
        findings = examine(Surroundings(context.located, context.env, context.daemon))
        context.out.table(("CHECK", "STATE", "FOUND"),
                          [(finding.check, finding.state, finding.found) for finding in findings],
                          [asdict(finding) for finding in findings])
        for finding in findings:
            if finding.remedy and not args.json:
                context.out.line(f"\n{finding.check}: {finding.remedy}")
        return 1 if worst(findings) == "fail" else 0
