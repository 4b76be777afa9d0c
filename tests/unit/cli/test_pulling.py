"""What a terminal is told of a pull."""

import io

from blazar.cli.output import Output
from blazar.cli.pulling import TerminalTeller


def test_sentences_are_notes_and_later_files_are_numbered():
    errors, steps = io.StringIO(), []
    teller = TerminalTeller(Output(errors=errors), lambda *step: steps.append(step))
    teller.says("took q4_0\x1b[0m")
    for name in ("a.gguf", "b.gguf"):
        teller.begins(name, None, None)
        teller.progress("download", 1, 2)
        teller.progress("verify", 2, 2)
    teller.progress("install", 4, 4)
    assert errors.getvalue() == "blazar: took q4_0[0m\n"
    assert [stage for stage, _, _ in steps] == ["download", "verify", "download 2", "verify 2", "install"]
