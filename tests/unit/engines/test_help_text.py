"""Help texts as real engines print them."""

import argparse

import pytest

from blazar.engines.help_text import Flag, read_flags, read_version
from tests.support.programs import HELP


def recorded(name):
    return read_flags((HELP / f"{name}.txt").read_text())


@pytest.mark.parametrize(("name", "spellings", "flags"), [
    ("llama-server-b10434", 397, 243), ("llama-server-b11434", 405, 251), ("sd-server", 131, 118),
    ("whisper-server", 98, 54)])
def test_every_flag_of_a_recorded_help_is_found(name, spellings, flags):
    found = recorded(name)
    assert (len(found), len(set(found.values()))) == (spellings, flags)
    assert all(spelling in flag.names for spelling, flag in found.items())


@pytest.mark.parametrize(("name", "spelling", "expected"), [
    ("llama-server-b11434", "-c", Flag(("-c", "--ctx-size"), "N")),
    ("llama-server-b11434", "--n-predict", Flag(("-n", "--predict", "--n-predict"), "N")),
    ("llama-server-b11434", "--swa-full", Flag(("--swa-full",))),
    ("llama-server-b11434", "--no-kv-offload", Flag(("-kvo", "--kv-offload", "-nkvo", "--no-kv-offload"))),
    ("llama-server-b11434", "--flash-attn", Flag(("-fa", "--flash-attn"), "[on|off|auto]", ("on", "off", "auto"))),
    ("llama-server-b11434", "--cpu-strict", Flag(("--cpu-strict",), "<0|1>", ("0", "1"))),
    ("llama-server-b11434", "--poll", Flag(("--poll",), "<0...100>")),
    ("llama-server-b11434", "-ctk", Flag(("-ctk", "--cache-type-k"), "TYPE",
                                         ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"))),
    ("llama-server-b11434", "--pooling", Flag(("--pooling",), "{none,mean,cls,last,rank}",
                                              ("none", "mean", "cls", "last", "rank"))),
    ("llama-server-b11434", "-ot", Flag(("-ot", "--override-tensor"), "<tensor name pattern>=<buffer type>,...")),
    ("llama-server-b11434", "--control-vector-layer-range", Flag(("--control-vector-layer-range",), "START END")),
    ("llama-server-b11434", "-hf", Flag(("-hf", "-hfr", "--hf-repo"), "<user>/<model>[:quant]")),
    ("sd-server", "--vae-tiling", Flag(("--vae-tiling",))),
    ("sd-server", "-m", Flag(("-m", "--model"), "<string>")),
    ("sd-server", "--rng", Flag(("--rng",), "VALUE", ("std_default", "cuda", "cpu"))),
    ("whisper-server", "-d", Flag(("-d", "--duration"), "N")),
    ("whisper-server", "-vspd", Flag(("-vspd", "--vad-min-speech-duration-ms"), "N")),
    ("whisper-server", "-dtw", Flag(("-dtw", "--dtw"), "MODEL")),
    ("whisper-server", "--host", Flag(("--host",), "HOST")),
    ("whisper-server", "-nlp", Flag(("-nlp", "--no-language-probabilities"))),
    ("whisper-server", "--vad", Flag(("--vad",))),
])
def test_single_flags(name, spelling, expected):
    assert recorded(name)[spelling] == expected


@pytest.mark.parametrize("gone", ["--draft-max", "--draft", "--spec-ngram-size-n"])
def test_a_flag_that_was_removed_is_no_flag(gone):
    assert gone in (HELP / "llama-server-b11434.txt").read_text()
    assert gone not in recorded("llama-server-b11434")


def test_words_of_a_description_are_no_flags():
    found = read_flags("--a N                       like\n                            --b, but larger\n--c  see --d\n")
    assert set(found) == {"--a", "--c"}


def test_argparse():
    parser = argparse.ArgumentParser("server", formatter_class=lambda prog: argparse.HelpFormatter(prog, width=160))
    parser.add_argument("-c", "--ctx-size", type=int, help="tokens")
    parser.add_argument("--mode", choices=["on", "off"])
    parser.add_argument("--a-very-long-name-for-a-flag", action="store_true", help="-- no flag\n-x neither")
    found = read_flags(parser.format_help())
    assert found["-c"].names == ("-c", "--ctx-size") and found["-c"].value == "CTX_SIZE"
    assert found["--mode"] == Flag(("--mode",), "{on,off}", ("on", "off"))
    assert found["--a-very-long-name-for-a-flag"].value is None
    assert set(found) == {"-h", "--help", "-c", "--ctx-size", "--mode", "--a-very-long-name-for-a-flag"}


def test_colours_are_no_part_of_a_name():
    assert set(read_flags("\x1b[33m-m,    --model FNAME\x1b[0m   a file\n")) == {"-m", "--model"}


@pytest.mark.parametrize("text", ["", "\n\n", "error: unknown argument: --help\n", "\x00\xff binary", "- a\n-1 x"])
def test_no_help_no_flags(text):
    assert read_flags(text) == {}


def test_an_endless_help_is_read_in_no_time():
    words = " ".join(f"-{chr(97 + number % 26)}{number}" for number in range(20_000))
    assert read_flags(f"{words}\n--x {'A,' * 100_000}\n--y {' ' * 100_000}z\n--z one of [{'a,' * 100_000}\n")
    assert len(read_flags("\n".join(f"--flag-{number}" for number in range(10_000)))) == 4096


@pytest.mark.parametrize(("text", "expected"), [
    ("version: 5123 (a1b2c3d4)\nbuilt with cc for x86_64-linux-gnu\n", "5123 (a1b2c3d4)"),
    ("ggml_cuda_init: found 1 device\nversion: 0.6.0-dev (build 0, commit unknown)\n",
     "0.6.0-dev (build 0, commit unknown)"),
    ("version: xllamacpp 2026.10.11549\n", "xllamacpp 2026.10.11549"),
    ("stable-diffusion.cpp version unknown, commit unknown\n", "unknown, commit unknown"),
    ("b0-unknown\n", "b0-unknown"), ("v1.8.5\n", "v1.8.5"), ("mlx_lm 3\n", None), ("", None),
    ("version: " + "9" * 500, "9" * 120),
])
def test_versions(text, expected):
    assert read_version(text) == expected
