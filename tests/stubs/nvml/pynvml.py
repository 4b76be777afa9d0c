"""Stands in for NVIDIA's own module: two GPUs, of which the second tells nothing but its place."""

from types import SimpleNamespace


class NVMLError(Exception):
    pass


def nvmlInit():
    pass


def nvmlShutdown():
    pass


def nvmlSystemGetDriverVersion():
    return b"550.54.14"


def nvmlSystemGetCudaDriverVersion():
    return 12040


def nvmlDeviceGetCount():
    return 2


def nvmlDeviceGetHandleByIndex(index):
    return index


def nvmlDeviceGetPciInfo(handle):
    return SimpleNamespace(busId=b"00000000:01:00.0" if handle == 0 else "00000000:C1:00.0")


def nvmlDeviceGetName(handle):
    return _first(handle, "NVIDIA GeForce RTX 4070")


def nvmlDeviceGetMemoryInfo(handle):
    return _first(handle, SimpleNamespace(total=12 << 30, free=11 << 30))


def nvmlDeviceGetCudaComputeCapability(handle):
    return _first(handle, (8, 9))


def nvmlDeviceGetUUID(handle):
    return _first(handle, b"GPU-dee1e25b-b3b5-007e-2b55-79f2d0f2ebe5")


def _first(handle, value):
    if handle:
        raise NVMLError("not supported")
    return value
