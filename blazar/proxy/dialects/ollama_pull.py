"""How far a pull is, in the lines that Ollama's clients draw their progress from. Pure."""

from typing import Any

SHOWN = 12
"""Digits of a digest that a status shows."""

BEGIN = {"status": "pulling manifest"}
END = {"status": "success"}


class PullTranslator:
    """From the supervisor's notes about one pull to Ollama's status objects."""

    def __init__(self) -> None:
        self._file: dict[str, Any] = {}
        self._stage = ""

    def feed(self, note: dict[str, Any]) -> dict[str, Any] | None:
        """The status that a note stands for; None when Ollama has none for it, or has had it."""
        if "says" in note:
            return {"status": note["says"]}
        if "begins" in note:
            self._file, self._stage = note, ""
            return self._pulling(0, note.get("size"))
        stage, self._stage = self._stage, note["stage"]
        if note["stage"] == "download":
            return self._pulling(note["done"], note["total"])
        if stage == note["stage"]:
            return None
        return {"status": "writing manifest" if note["stage"] == "install" else "verifying sha256 digest"}

    def _pulling(self, done: int, total: int | None) -> dict[str, Any]:
        digest = self._file.get("sha256")
        shown = digest[:SHOWN] if digest else self._file.get("begins", "model")
        status: dict[str, Any] = {"status": f"pulling {shown}"}
        if digest:
            status["digest"] = f"sha256:{digest}"
        if total:
            status["total"] = total
        if done:
            status["completed"] = done
        return status
