"""Rules about what engines are given: pairs, windows, reserved flags, files that must exist."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blazar.config.refusal import KeyPath
from blazar.config.rule import Problem, flags_of, overrides, rule

Values = Mapping[str, Any]

LLAMA_RESERVED = ("--host", "--port", "--model", "-m", "--api-key", "--api-key-file", "--api-prefix",
                  "--ssl-key-file", "--ssl-cert-file", "--model-url", "-mu", "--docker-repo", "-dr", "--hf-repo", "-hf",
                  "-hfr", "--hf-file", "-hff", "--models-dir", "--models-preset", "--models-max", "--models-autoload",
                  "--no-models-autoload")
LLAMA_ENDS = frozenset({"--help", "-h", "--usage", "--version", "--license", "--list-devices", "--cache-list", "-cl",
                        "--completion-bash"})
"""Flags with which an engine prints something and ends."""
LLAMA_PLANNED = {"--ctx-size": "ctx", "-c": "ctx", "--parallel": "slots", "-np": "slots"}
"""Flags of which Blazar must know the value, and the settings to give it by."""
LLAMA_VARIABLES = frozenset({"LLAMA_API_KEY", "LLAMA_ARG_N_PARALLEL"}).union(
    f"LLAMA_ARG_{flag[2:].replace('-', '_').upper()}" for flag in (*LLAMA_RESERVED, *LLAMA_PLANNED)
    if flag.startswith("--"))
"""Variables that llama-server takes for these flags."""
ASKED = frozenset({"model", "messages", "prompt", "input", "stream", "stream_options", "tools", "tool_choice", "n"})
"""Fields of a request that are not for sampler_defaults."""
WHISPER_RESERVED = ("--host", "--port", "--model", "-m", "--vad", "--vad-model", "-vm")
WHISPER_FLAGS = {"--beam-size": "whisper_beam_size", "-bs": "whisper_beam_size", "--best-of": "whisper_best_of",
                 "-bo": "whisper_best_of", "--entropy-thold": "whisper_entropy_thold", "-et": "whisper_entropy_thold",
                 "--logprob-thold": "whisper_logprob_thold", "-lpt": "whisper_logprob_thold",
                 "--word-thold": "whisper_word_thold", "-wt": "whisper_word_thold",
                 "--vad-threshold": "whisper_vad_threshold", "-vt": "whisper_vad_threshold",
                 "--vad-min-speech-duration-ms": "whisper_vad_min_speech_duration_ms",
                 "-vspd": "whisper_vad_min_speech_duration_ms",
                 "--vad-min-silence-duration-ms": "whisper_vad_min_silence_duration_ms",
                 "-vsd": "whisper_vad_min_silence_duration_ms", "--diarize": "whisper_diarize",
                 "-di": "whisper_diarize", "--tinydiarize": "whisper_tinydiarize", "-tdrz": "whisper_tinydiarize"}
SDCPP_RESERVED = ("--host", "--port", "--listen-ip", "--listen-port", "-l", "--model", "-m", "--diffusion-model",
                  "--vae", "--llm", "--clip_l", "--clip_g", "--t5xxl", "--threads", "-t")


@rule(refused='sdcpp_ip_adapter = "a.safetensors"',
      accepted='sdcpp_ip_adapter = "a.safetensors"\nsdcpp_clip_vision = "c.safetensors"')
def ip_adapter_needs_clip_vision(values: Values) -> Iterator[Problem]:
    """An IP adapter sees through CLIP."""
    if values["sdcpp_ip_adapter"] and not values["sdcpp_clip_vision"]:
        yield Problem(("sdcpp_ip_adapter",), "it is set and sdcpp_clip_vision is not", "set sdcpp_clip_vision too")


@rule(refused='sdcpp_cache_option = "threshold=0.25"',
      accepted='sdcpp_cache_mode = "ucache"\nsdcpp_cache_option = "threshold=0.25"', warns=True)
def cache_option_needs_mode(values: Values) -> Iterator[Problem]:
    """Tuning of a cache that is off does nothing."""
    if values["sdcpp_cache_option"] and not values["sdcpp_cache_mode"]:
        yield Problem(("sdcpp_cache_option",), "it does nothing without sdcpp_cache_mode", "choose a mode", fatal=False)


@rule(refused="whisper_vad_threshold = 0.5", accepted='whisper_vad_model = "v.bin"\nwhisper_vad_threshold = 0.5')
def vad_options_need_model(values: Values) -> Iterator[Problem]:
    """Without a model there is no speech detection to tune."""
    for name in ("whisper_vad_threshold", "whisper_vad_min_speech_duration_ms", "whisper_vad_min_silence_duration_ms"):
        if values[name] is not None and not values["whisper_vad_model"]:
            yield Problem((name,), "it needs whisper_vad_model", f"set whisper_vad_model, or remove {name}")


@rule(refused='whisper_extra_args = ["--port", "80"]', accepted='whisper_extra_args = ["--dtw", "tiny"]')
def whisper_flags_are_free(values: Values) -> Iterator[Problem]:
    """What Blazar sets itself is not given twice."""
    yield from _reserved(("whisper_extra_args",), values["whisper_extra_args"], WHISPER_RESERVED)


@rule(refused='whisper_beam_size = 5\nwhisper_extra_args = ["--beam-size=3"]',
      accepted='whisper_extra_args = ["--beam-size=3"]')
def whisper_flags_are_set_once(values: Values) -> Iterator[Problem]:
    """A flag comes from its setting or from the extra ones."""
    for flag in flags_of(values["whisper_extra_args"]):
        name = WHISPER_FLAGS.get(flag)
        if name and values[name] is not None:
            yield Problem(("whisper_extra_args",), f"{flag} is set by {name} too", f"keep {name} and remove {flag}")


@rule(refused='sdcpp_extra_args = ["--vae", "x"]', accepted='sdcpp_extra_args = ["--control-net", "x"]')
def sdcpp_flags_are_free(values: Values) -> Iterator[Problem]:
    """As for whisper."""
    yield from _reserved(("sdcpp_extra_args",), values["sdcpp_extra_args"], SDCPP_RESERVED)


@rule(refused='[model_overrides.m]\nextra_args = ["--api-key", "x"]',
      accepted='[model_overrides.m]\nextra_args = ["--threads", "4"]')
def override_flags_are_free(values: Values) -> Iterator[Problem]:
    """Address, model and secret of a child are Blazar's to give."""
    for path, entry in overrides(values):
        yield from _reserved((*path, "extra_args"), entry["extra_args"], LLAMA_RESERVED)
        for flag in flags_of(entry["extra_args"]):
            if flag in LLAMA_PLANNED:
                yield Problem((*path, "extra_args"), f"{flag} is set by Blazar itself",
                              f"remove it, and set {LLAMA_PLANNED[flag]} beside extra_args")
            elif flag in LLAMA_ENDS:
                yield Problem((*path, "extra_args"), f"with {flag} the engine prints something and ends", "remove it")
            elif flag.endswith("-default") and flag != "--spec-default":
                yield Problem((*path, "extra_args"), f"{flag} makes the engine load another model",
                              "remove it, and get that model with `blazar pull`")


@rule(refused='[engine_env]\nLLAMA_ARG_PORT = "80"', accepted='[engine_env]\nLLAMA_ARG_TOP_K = "20"')
def engine_variables_are_free(values: Values) -> Iterator[Problem]:
    """llama-server takes its flags from variables too."""
    for name in values["engine_env"]:
        if name in LLAMA_VARIABLES:
            yield Problem(("engine_env", name), "it stands for a flag that is set by Blazar itself", f"remove {name}")


@rule(refused='whisper_extra_args = ["tiny", "--dtw"]', accepted='whisper_extra_args = ["--dtw", "tiny"]')
def extra_args_begin_with_a_flag(values: Values) -> Iterator[Problem]:
    """A value without a flag before it would be taken for something else."""
    lists: list[tuple[KeyPath, Any]] = [((name,), values[name]) for name in ("whisper_extra_args", "sdcpp_extra_args")]
    lists += [((*path, "extra_args"), entry["extra_args"]) for path, entry in overrides(values)]
    for path, arguments in lists:
        if arguments and not re.match("--?[A-Za-z]", arguments[0]):
            yield Problem(path, f"{arguments[0]!r} is no flag", 'begin with a flag: ["--flag", "value"]')


@rule(refused="deterministic = true\nslots = 2", accepted="deterministic = true\nslots = 1")
def deterministic_has_one_slot(values: Values) -> Iterator[Problem]:
    """Requests beside each other change each other's numbers a little."""
    for path, scope in ((), values), *overrides(values):
        if scope["deterministic"] and (scope["slots"] or 0) > 1:
            yield Problem((*path, "slots"), f"deterministic = true means one slot, and slots is {scope['slots']}",
                          "remove slots, or set deterministic = false")


@rule(refused="ngram_mod_n_min = 9\nngram_mod_n_max = 4", accepted="ngram_mod_n_min = 4\nngram_mod_n_max = 9")
def ngram_window_is_open(values: Values) -> Iterator[Problem]:
    """The fewest are not more than the most."""
    yield from _window(values, "ngram_mod_n_min", "ngram_mod_n_max")


@rule(refused="image_min_tokens = 9\nimage_max_tokens = 4", accepted="image_min_tokens = 4\nimage_max_tokens = 9")
def image_window_is_open(values: Values) -> Iterator[Problem]:
    """The fewest are not more than the most."""
    yield from _window(values, "image_min_tokens", "image_max_tokens")


@rule(refused="batch_size = 256\nubatch_size = 512", accepted="batch_size = 512\nubatch_size = 256")
def batch_holds_micro_batch(values: Values) -> Iterator[Problem]:
    """One pass computes a part of what was handed over."""
    yield from _window(values, "ubatch_size", "batch_size")


@rule(refused="idle_sleep_secs = 100\nidle_timeout_secs = 50", accepted="idle_sleep_secs = 50\nidle_timeout_secs = 100",
      warns=True)
def sleep_comes_before_evict(values: Values) -> Iterator[Problem]:
    """A child that is stopped earlier never sleeps."""
    for problem in _window(values, "idle_sleep_secs", "idle_timeout_secs"):
        yield Problem(problem.path, "idle_timeout_secs is shorter, so a child never sleeps", problem.remedy,
                      fatal=False)


@rule(refused='lookup_cache_static = "/nonexistent/static.bin"', accepted='lookup_cache_static = "/proc/self/status"')
def lookup_caches_exist(values: Values) -> Iterator[Problem]:
    """The engine reads these files at start."""
    yield from _files(values, "lookup_cache_static", "lookup_cache_dynamic")


@rule(refused='tls_cert = "/nonexistent/cert.pem"\ntls_key = "/proc/self/status"',
      accepted="")
def tls_files_exist(values: Values) -> Iterator[Problem]:
    """A certificate that is not there would be found out by the first client."""
    yield from _files(values, "tls_cert", "tls_key")


@rule(refused='[model_overrides.m]\nchat_template = "chatml"\nchat_template_file = "/proc/self/status"',
      accepted='[model_overrides.m]\nchat_template_file = "/proc/self/status"')
def one_chat_template(values: Values) -> Iterator[Problem]:
    """A template is written out or stands in a file."""
    for path, entry in overrides(values):
        if entry["chat_template"] and entry["chat_template_file"]:
            yield Problem((*path, "chat_template_file"), "chat_template is set too", "keep one of the two")


@rule(refused='[model_overrides.m.sampler_defaults]\nmodel = "other"',
      accepted='[model_overrides.m.sampler_defaults]\ntemperature = 0.2\nstop = ["x"]')
def sampler_defaults_shape_sampling(values: Values) -> Iterator[Problem]:
    """What is asked, of whom, and how the answer comes is the caller's to say."""
    for path, entry in overrides(values):
        for name in ASKED.intersection(entry["sampler_defaults"] or ()):
            yield Problem((*path, "sampler_defaults", name), "it is no matter of sampling", f"remove {name}")


@rule(refused='[[model_overrides.m.loras]]\npath = "/a,b.gguf"',
      accepted='[[model_overrides.m.loras]]\npath = "/a b.gguf"')
def lora_paths_are_plain(values: Values) -> Iterator[Problem]:
    """The engine takes adapters as a list with commas, in which a colon stands before a scale."""
    for path, entry in overrides(values):
        for place, adapter in enumerate(entry["loras"] or ()):
            if not adapter["path"]:
                yield Problem((*path, "loras", place, "path"), "it is empty", "write the path of the adapter's file")
            for sign in set(",:\"").intersection(adapter["path"]):
                yield Problem((*path, "loras", place, "path"), f"engines cannot be given a path with {sign}",
                              "rename the file, or make a link to it")


@rule(refused='cpu_range = "5-2"', accepted='cpu_range = "2-2"')
def cpu_ranges_go_up(values: Values) -> Iterator[Problem]:
    """From the lower to the higher number."""
    for name in ("cpu_range", "spec_draft_cpu_range"):
        low, _, high = (values[name] or "").partition("-")
        if high and int(low) > int(high):
            yield Problem((name,), f"{low} is more than {high}", f'write "{high}-{low}"')


@rule(refused='[sglang]\nretraction_policy = "priority"',
      accepted='[sglang]\nretraction_policy = "priority"\nenable_priority_scheduling = true')
def priority_retraction_needs_scheduling(values: Values) -> Iterator[Problem]:
    """Without priorities there is nothing to retract by."""
    general = values["sglang"]
    scopes: list[tuple[tuple, Mapping[str, Any]]] = [(("sglang",), general)]
    scopes += [((*path, "sglang"), {**general, **_set_fields(entry["sglang"])})
               for path, entry in overrides(values) if entry["sglang"]]
    for path, scope in scopes:
        if scope["retraction_policy"] == "priority" and not scope["enable_priority_scheduling"]:
            yield Problem((*path, "retraction_policy"), "it needs enable_priority_scheduling = true",
                          'set that too, or retraction_policy = "length"')


@rule(refused="[mistralrs]\npa_memory_mb = 512\nmistralrs_pa_memory_fraction = 0.5",
      accepted="[mistralrs]\npa_memory_mb = 512", warns=True)
def paged_memory_is_given_once(values: Values) -> Iterator[Problem]:
    """The absolute size wins over the share."""
    if values["mistralrs"]["pa_memory_mb"] and values["mistralrs"]["mistralrs_pa_memory_fraction"]:
        yield Problem(("mistralrs", "mistralrs_pa_memory_fraction"), "pa_memory_mb is set and wins over it",
                      "remove one of the two", fatal=False)


def _set_fields(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if value is not None}


def _reserved(path: tuple, arguments: tuple[str, ...] | None, reserved: tuple[str, ...]) -> Iterator[Problem]:
    for flag in flags_of(arguments):
        if flag in [one.replace("_", "-") for one in reserved]:
            yield Problem(path, f"{flag} is set by Blazar itself", f"remove {flag}")


def _window(values: Values, low: str, high: str) -> Iterator[Problem]:
    if values[high] and values[low] > values[high]:
        yield Problem((low,), f"{low} is {values[low]} and {high} is {values[high]}", f"make {low} at most {high}")


@rule(refused='video_ffmpeg_dir = "/etc"', accepted='video_ffmpeg_dir = ""')
def video_programs_exist(values: Values) -> Iterator[Problem]:
    """The engine unpacks video with two programs out of one folder."""
    folder = values["video_ffmpeg_dir"]
    lacks = [program for program in ("ffmpeg", "ffprobe") if not os.access(Path(folder, program), os.X_OK)]
    if folder and lacks:
        yield Problem(("video_ffmpeg_dir",), f"there is no program {' and no '.join(lacks)} in {folder}",
                      "name the folder that holds ffmpeg and ffprobe, or leave it empty to look on PATH")


def _files(values: Values, *names: str, exists: Callable[[Path], bool] = Path.is_file) -> Iterator[Problem]:
    for name in names:
        if values[name] and not exists(Path(values[name])):
            yield Problem((name,), f"there is no file {values[name]}", "correct the path")


ENGINE_RULES = (ip_adapter_needs_clip_vision, cache_option_needs_mode, vad_options_need_model, whisper_flags_are_free,
                whisper_flags_are_set_once, sdcpp_flags_are_free, override_flags_are_free,
                engine_variables_are_free, lora_paths_are_plain, cpu_ranges_go_up,
                extra_args_begin_with_a_flag, deterministic_has_one_slot, ngram_window_is_open, image_window_is_open,
                batch_holds_micro_batch, sleep_comes_before_evict, lookup_caches_exist, tls_files_exist,
                video_programs_exist, one_chat_template, sampler_defaults_shape_sampling,
                priority_retraction_needs_scheduling, paged_memory_is_given_once)
