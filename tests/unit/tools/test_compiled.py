"""Where nothing can be compiled, that is said in one line."""

import pytest

from tools.compiled import tree
from tools.compiled.__main__ import main


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A checkout without anything in it."""
    for name, path in (("ROOT", tmp_path), ("TREE", tmp_path / "build" / "compiled"),
                       ("LOG", tmp_path / "build" / "compiled.log")):
        monkeypatch.setattr(tree, name, path)
    monkeypatch.setattr(tree, "_check", lambda: None)
    return tmp_path


def test_a_build_that_fails_says_so_in_one_line(root, capfd):
    (root / "setup.py").write_text("import sys\n"
                                   "print('warning\\n' * 1000 + 'x.c: too odd')\n"
                                   "sys.exit('error: command cc failed')\n")
    assert main() == 0
    lines = [line for line in capfd.readouterr().out.splitlines() if not line.startswith("compiling")]
    assert lines == ["not compiled, which changes the speed alone: the build failed, and build/compiled.log has what "
                     "it said; it ends with: error: command cc failed"]
    assert "x.c: too odd" in (root / "build" / "compiled.log").read_text() and not tree.TREE.exists()


def test_a_build_without_a_word(root, capfd):
    (root / "setup.py").write_text("import sys\nsys.exit(3)\n")
    assert main() == 0
    assert capfd.readouterr().out.splitlines()[-1].endswith("it ends with: exit status 3")


def test_an_old_copy_does_not_outlive_it(root):
    tree.TREE.mkdir(parents=True)
    (root / "setup.py").write_text("raise SystemExit(1)\n")
    with pytest.raises(tree.Unable):
        tree.build()
    assert not tree.TREE.exists()
