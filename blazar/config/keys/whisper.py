"""Whisper: transcription and translation of speech"""

from blazar.config.setting import Setting
from blazar.config.types import Bool, Float, Int, ListOf, Text

SETTINGS = (
    Setting("whisper_stream_chunk_ms", Int(1000, 120000), 30000, group="whisper",
            env="BLAZAR_WHISPER_STREAM_CHUNK_MS",
            doc="Milliseconds of audio in each window of a streamed transcription."),
    Setting("whisper_vad_model", Text(like="a file name in the whisper engine's folder, or a path", empty=False), None,
            group="whisper",
            doc="Model that finds speech, so that silence is skipped; unset = none."),
    Setting("whisper_vad_threshold", Float(0, 1), None, group="whisper",
            doc="Probability from which a piece counts as speech."),
    Setting("whisper_vad_min_speech_duration_ms", Int(0, 3600000), None, group="whisper",
            doc="Shortest speech that is kept, in milliseconds."),
    Setting("whisper_vad_min_silence_duration_ms", Int(0, 3600000), None, group="whisper",
            doc="Shortest silence that divides speech, in milliseconds."),
    Setting("whisper_beam_size", Int(1, 64), None, group="whisper",
            doc="Beams of the decoder: more are more exact on noisy audio, and slower."),
    Setting("whisper_best_of", Int(1, 64), None, group="whisper",
            doc="Candidates from which the decoder takes the best."),
    Setting("whisper_entropy_thold", Float(0, 100), None, group="whisper",
            doc="Entropy from which a decoded piece counts as failed."),
    Setting("whisper_logprob_thold", Float(-100, 0), None, group="whisper",
            doc="Log probability under which a decoded piece counts as failed."),
    Setting("whisper_word_thold", Float(0, 1), None, group="whisper",
            doc="Probability from which the time stamp of a word is trusted."),
    Setting("whisper_diarize", Bool(), None, group="whisper",
            doc="Tell two speakers apart by the channels of a stereo recording."),
    Setting("whisper_tinydiarize", Bool(), None, group="whisper",
            doc="Mark changes of speaker; needs a model made for it."),
    Setting("whisper_extra_args", ListOf(Text(empty=False)), None, group="whisper", env="BLAZAR_WHISPER_EXTRA_ARGS",
            doc="Further flags for the whisper server."),
)
