"""Scheduling: CPUs, threads and GPUs of a child"""

from blazar.config.setting import Setting
from blazar.config.types import Bool, Choice, Int, ListOf, Text

CPUS = Text(r"\d{1,4}-\d{1,4}", like='a range of CPUs such as "0-7"')
RATIOS = Text(r"\d+(\.\d+)?(,\d+(\.\d+)?)*", like='shares such as "3,1"')
TENSOR_PLACES = ListOf(Text(r"[^=]+=[^=]+", like='pattern=device, such as "exps=CPU"', empty=False))
DEVICES = ListOf(Text(r"[^\s,]+", like='a device name such as "CUDA0"', empty=False))

SETTINGS = (
    Setting("cpu_range", CPUS, "", lane="llamacpp", flag="--cpu-range",
            doc="CPUs on which children run; empty = all."),
    Setting("cpu_strict", Bool(), False, lane="llamacpp", flag="--cpu-strict", written=int,
            doc="Bind each thread of a child to its own CPU."),
    Setting("prio", Int(-1, 3), 0, lane="llamacpp", flag="--prio",
            doc="Priority of a child's threads, from -1 (low) to 3 (real time)."),
    Setting("prio_batch", Int(-1, 3), 0, lane="llamacpp", flag="--prio-batch",
            doc="Priority of the threads that read prompts, from -1 to 3."),
    Setting("poll", Int(0, 100), 0, lane="llamacpp", flag="--poll",
            doc="How eagerly threads wait for work, up to 100; 0 leaves it to the engine."),
    Setting("poll_batch", Int(0, 100), None, lane="llamacpp", flag="--poll-batch",
            doc="How eagerly threads that read prompts wait for work, 0 to 100."),
    Setting("threads_http", Int(0, 4096), 0, lane="llamacpp", flag="--threads-http",
            doc="Threads a child uses to answer HTTP; 0 leaves it to the engine."),
    Setting("threads_batch", Int(0, 4096), 0, lane="llamacpp", flag="--threads-batch",
            doc="Threads with which a child reads prompts; 0 leaves it to the engine."),
    Setting("main_gpu", Int(-1, 1024), -1, lane="llamacpp", flag="--main-gpu",
            doc="Number of the GPU that holds what is not split; -1 leaves it to the engine."),
    Setting("split_mode", Choice("", "none", "layer", "row", "tensor"), "", lane="llamacpp", flag="--split-mode",
            doc="How a model is spread over several GPUs; empty leaves it to the engine."),
    Setting("tensor_split", RATIOS, "", overlay="tensor_split", lane="llamacpp", flag="--tensor-split",
            doc="Share of the model for each GPU."),
    Setting("devices", DEVICES, (), overlay="devices", lane="llamacpp", flag="--device",
            doc="Devices that children may use, named as `blazar doctor` does; empty = all that are found."),
    Setting("override_tensor", TENSOR_PLACES, (), overlay="override_tensor", lane="llamacpp", flag="--override-tensor",
            doc="Devices for single tensors, by pattern."),
    Setting("tensor_preset", Choice("", "moe-cpu-offload"), "", lane="llamacpp", flag="--cpu-moe", written=bool,
            doc="A ready-made placement: moe-cpu-offload keeps all experts in RAM."),
    Setting("op_offload", Bool(), None, lane="llamacpp", flag="--op-offload", no_flag="--no-op-offload",
            doc="Let the GPU compute on weights that lie in RAM; unset leaves it to the engine."),
    Setting("check_tensors", Bool(), False, lane="llamacpp", flag="--check-tensors",
            doc="Look for invalid numbers in the weights at load."),
)
