"""From the supervisor's notes about a pull to the lines of Ollama's clients. A table."""

from blazar.proxy.dialects.ollama_pull import PullTranslator

DIGEST = "abcdef0123456789" * 4


def test_a_pull_of_two_files():
    translator = PullTranslator()
    notes = [{"says": "took q4_0, the only build there is"},
             {"begins": "a.gguf", "sha256": DIGEST, "size": 100}, {"stage": "download", "done": 0, "total": 100},
             {"stage": "download", "done": 60, "total": 100}, {"stage": "verify", "done": 60, "total": 100},
             {"stage": "verify", "done": 100, "total": 100}, {"begins": "b.gguf", "sha256": None, "size": None},
             {"stage": "download", "done": 5, "total": None}, {"stage": "verify", "done": 5, "total": 5},
             {"stage": "install", "done": 105, "total": 105}, {"stage": "install", "done": 105, "total": 105}]
    first = {"status": "pulling abcdef012345", "digest": f"sha256:{DIGEST}", "total": 100}
    assert [translator.feed(note) for note in notes] == [
        {"status": "took q4_0, the only build there is"}, first, first, {**first, "completed": 60},
        {"status": "verifying sha256 digest"}, None, {"status": "pulling b.gguf"},
        {"status": "pulling b.gguf", "completed": 5}, {"status": "verifying sha256 digest"},
        {"status": "writing manifest"}, None]


def test_a_wheel_whose_file_was_not_told():
    assert PullTranslator().feed({"stage": "download", "done": 5, "total": 9}) == {
        "status": "pulling model", "total": 9, "completed": 5}
