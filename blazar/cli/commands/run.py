"""`blazar run`: ask a model once, or chat with it on a terminal."""

import argparse
import sys
from typing import Any

from blazar.cli.command import Command
from blazar.cli.context import Context
from blazar.errors import BlazarError, UsageRefused

BYE = ("/bye", "/exit", "/quit")


class Run(Command):
    name = "run"
    words = "prompt"
    help = "Ask a model, or chat with it"
    about = ("Asks the daemon. The prompt is the rest of the line, else stdin; on a terminal without either a small "
             "chat begins: Ctrl-C stops an answer, /clear begins anew, /bye or Ctrl-D ends it.")
    examples = ('blazar run smollm2-135m "Write two sentences about a quiet library."',
                "blazar run smollm2-135m --max-tokens 50 'What is a library?'",
                "blazar run smollm2-135m --system 'Answer in one sentence.' < question.txt",
                "blazar run smollm2-135m")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", metavar="MODEL", help="the model's name")
        parser.add_argument("prompt", metavar="PROMPT", nargs="*", help="what to ask; several words make one prompt")
        parser.add_argument("--system", metavar="TEXT", help="what the model is told beforehand")
        parser.add_argument("--temperature", metavar="T", type=float, help="0 always takes the likeliest token")
        parser.add_argument("--seed", metavar="N", type=int, help="the same seed gives the same answer")
        parser.add_argument("--max-tokens", metavar="N", type=int, help="end the answer after so many tokens")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        chat = Chat(args, context)
        prompt = " ".join(args.prompt)
        if not prompt and not sys.stdin.isatty():
            prompt = sys.stdin.read().strip()
            if not prompt:
                raise UsageRefused("there is nothing to ask: give a prompt as an argument or on stdin")
        if prompt:
            chat.ask(prompt)
        else:
            _talk(chat, context)
        return 0


class Chat:
    """The messages said so far, and one way to say the next."""

    def __init__(self, args: argparse.Namespace, context: Context) -> None:
        self._context = context
        self._model = args.model
        options = {"temperature": args.temperature, "seed": args.seed, "num_predict": args.max_tokens}
        self._options = {name: value for name, value in options.items() if value is not None}
        self._opening = [{"role": "system", "content": args.system}] if args.system else []
        self._messages: list[dict[str, Any]] = []

    def clear(self) -> None:
        self._messages = []

    def ask(self, prompt: str) -> None:
        """Print the answer as it comes. Stopped or failed, the question is taken back as if never asked."""
        messages = [*self._messages, {"role": "user", "content": prompt}]
        body = {"model": self._model, "messages": self._opening + messages, "options": self._options, "stream": True}
        answer = ""
        out = self._context.out
        for event in self._context.client.stream("/api/chat", body):
            piece = event.get("message", {}).get("content", "")
            answer += piece
            out.text(piece)
        if not answer.endswith("\n"):
            out.line()
        self._messages = [*messages, {"role": "assistant", "content": answer}]


def _talk(chat: Chat, context: Context) -> None:
    import readline  # noqa: F401 - gives `input` its line editing

    while True:
        try:
            prompt = input(">>> ").strip()
        except (EOFError, KeyboardInterrupt):
            context.out.line()
            return
        if prompt in BYE:
            return
        if prompt == "/clear":
            chat.clear()
        elif prompt:
            _answer(chat, prompt, context)


def _answer(chat: Chat, prompt: str, context: Context) -> None:
    """One turn; neither Ctrl-C nor an error ends the chat."""
    try:
        chat.ask(prompt)
    except KeyboardInterrupt:
        context.out.line()
    except BlazarError as error:
        context.out.note(str(error))
