"""Vision and embeddings: projectors, images, video, embedding vectors"""

from blazar.config.setting import Setting
from blazar.config.types import Bool, Choice, File, Float, Int, Text
from blazar.config.written import milliseconds


class ProjectorPolicy(Choice):
    """A word, or a boolean: true stands for attach, false for skip."""

    toml_type = "str|bool"

    def __init__(self) -> None:
        super().__init__("lazy", "attach", "skip")

    def check(self, value: object) -> str:
        if isinstance(value, bool):
            return "attach" if value else "skip"
        return super().check(value)

    def describe(self) -> str:
        return super().describe() + " (true means attach, false means skip)"

    def refused_examples(self) -> list[object]:
        return [7, "atach", "true"]


SETTINGS = (
    Setting("mmproj_policy", ProjectorPolicy(), None, group="vision",
            doc="When a projector is loaded: attach = with its model, lazy (also unset) = with the first request that "
                "shows the model something, skip = never."),
    Setting("mmproj_offload", Bool(), True, group="vision",
            lane="llamacpp", flag="--mmproj-offload", no_flag="--no-mmproj-offload",
            doc="Keep the projector on the GPU."),
    Setting("mmproj_auto", Bool(), True, group="vision",
            doc="Use the projector that lies beside a model without being told."),
    Setting("mmproj_device", Text(like='a device name such as "CUDA0"'), "", group="vision",
            lane="llamacpp", flag="--mmproj-device",
            doc="Device that holds the projector."),
    Setting("image_max_tokens", Int(0), 0, group="vision", lane="llamacpp", flag="--image-max-tokens",
            doc="Most tokens an image may take; 0 leaves it to the model."),
    Setting("image_min_tokens", Int(0), 0, group="vision", lane="llamacpp", flag="--image-min-tokens",
            doc="Fewest tokens an image takes; 0 leaves it to the model."),
    Setting("mtmd_batch_max_tokens", Int(0), 0, group="vision", lane="llamacpp", flag="--mtmd-batch-max-tokens",
            doc="Image tokens encoded at a time; 0 leaves it to the engine."),
    Setting("embd_normalize", Int(-1, 1024), 0, lane="llamacpp", flag="--embd-normalize",
            doc="Norm to which embeddings are scaled: -1 none, 1 taxicab, 2 Euclidean; 0 leaves it to the engine."),
    Setting("late_chunking_max_tokens", Int(1), 8192,
            doc="Longest document, in tokens, that may be embedded with late chunking; a longer one gets 413."),
    Setting("video_ffmpeg_dir", File(), "", lane="llamacpp", flag="--video-ffmpeg-dir",
            doc="Folder with the programs ffmpeg and ffprobe, for video input; empty looks on PATH."),
    Setting("video_fps", Float(0, 240), 0.0, lane="llamacpp", flag="--video-fps",
            doc="Frames taken from each second of a video; 0 leaves it to the engine."),
    Setting("video_timestamp_interval", Float(0, 86400), 0.0,
            lane="llamacpp", flag="--video-timestamp-interval", written=milliseconds,
            doc="Seconds between two time marks in a video's tokens; 0 leaves it to the engine."),
)
