"""Main memory and the limits of control groups, of both versions."""

import pytest

from blazar.hardware.cgroup import Allowance, read_allowance
from blazar.hardware.memory import Memory, read_memory
from tests.support.tree import grow

GIB = 1 << 30
MEMINFO = "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\nHugePages_Total:    0\n"
V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = "33 30 0:30 {seen} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
V1_OTHER = "32 30 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"


def v2(group, limits):
    """Files of a process in `group`; `limits` = lines of control files by path under the mount."""
    return {"proc/self/cgroup": f"0::{group}\n", "proc/self/mountinfo": V2_MOUNT, "proc/meminfo": MEMINFO,
            **{f"sys/fs/cgroup/{name}": f"{value}\n" for name, value in limits.items()}}


def v1(group, limits, seen="/"):
    return {"proc/self/cgroup": f"5:cpu,cpuacct:/elsewhere\n4:memory:{group}\n1:name=systemd:/\n0::/\n",
            "proc/self/mountinfo": V1_OTHER + V1_MOUNT.format(seen=seen), "proc/meminfo": MEMINFO,
            **{f"sys/fs/cgroup/memory/{name}": f"{value}\n" for name, value in limits.items()}}


def test_a_machine_without_limits(tmp_path):
    memory = read_memory(grow(tmp_path, v2("/", {})))
    assert memory == Memory(16 * GIB, 8 * GIB, None, None)
    assert (memory.usable, memory.free) == (16 * GIB, 8 * GIB)


@pytest.mark.parametrize(("files", "expected"), [
    pytest.param(v2("/app", {"app/memory.max": 4 * GIB, "app/memory.current": 3 * GIB,
                             "app/memory.stat": f"anon 5\ninactive_file {GIB}\nactive_file 7"}),
                 Allowance(4 * GIB, 2 * GIB + 7), id="file-cache-can-be-had-back"),
    pytest.param(v2("/a/b/c", {"a/memory.max": 2 * GIB, "a/memory.current": GIB, "a/b/memory.max": "max",
                               "a/b/memory.current": GIB, "a/b/c/memory.max": 3 * GIB, "a/b/c/memory.current": GIB}),
                 Allowance(2 * GIB, GIB), id="an-outer-group-is-tighter"),
    pytest.param(v2("/a/b", {"a/memory.max": 8 * GIB, "a/memory.current": 8 * GIB - 5, "a/b/memory.max": GIB,
                             "a/b/memory.current": 1}), Allowance(GIB, 5), id="a-sibling-has-filled-the-outer-group"),
    pytest.param(v2("/a", {"a/memory.max": 4 * GIB, "a/memory.high": GIB, "a/memory.current": 2 * GIB}),
                 Allowance(GIB, 0), id="beyond-high-it-only-crawls"),
    pytest.param(v2("/a", {"a/memory.max": 4 * GIB}), Allowance(4 * GIB, None), id="usage-unknown"),
    pytest.param(v2("/a", {"a/memory.max": "plenty"}), Allowance(), id="nonsense"),
    pytest.param(v2("/../outside", {"memory.max": GIB, "memory.current": 0}), Allowance(GIB, GIB),
                 id="a-group-outside-of-what-is-seen"),
    pytest.param(v1("/docker/x", {"docker/memory.limit_in_bytes": 6 * GIB, "docker/memory.usage_in_bytes": GIB,
                                  "docker/x/memory.limit_in_bytes": 2 * GIB, "docker/x/memory.usage_in_bytes": GIB,
                                  "docker/x/memory.stat": f"cache 3\ntotal_inactive_file {GIB // 2}",
                                  "memory.limit_in_bytes": 9223372036854771712}),
                 Allowance(2 * GIB, 2 * GIB - GIB // 2), id="v1-nested"),
    pytest.param(v1("/docker/x", {"memory.limit_in_bytes": GIB, "memory.usage_in_bytes": 0}, seen="/docker/x"),
                 Allowance(GIB, GIB), id="v1-inside-a-container"),
    pytest.param(v1("/docker/x", {"memory.limit_in_bytes": 9223372036854771712, "memory.usage_in_bytes": 9}),
                 Allowance(), id="v1-no-limit"),
    pytest.param({"proc/self/cgroup": "torn", "proc/self/mountinfo": "1 2 - cgroup2\n - \n"}, Allowance(), id="torn"),
    pytest.param({}, Allowance(), id="no-files"),
])
def test_limits_of_control_groups(tmp_path, files, expected):
    assert read_allowance(grow(tmp_path, files)) == expected


def test_a_limit_counts_only_when_it_is_tighter_than_the_machine(tmp_path):
    files = v2("/a", {"a/memory.max": 4 * GIB, "a/memory.current": GIB})
    memory = read_memory(grow(tmp_path / "tight", files))
    assert (memory.usable, memory.free) == (4 * GIB, 3 * GIB)
    files = v2("/a", {"a/memory.max": 400 * GIB, "a/memory.current": GIB})
    memory = read_memory(grow(tmp_path / "wide", files))
    assert (memory.usable, memory.free) == (16 * GIB, 8 * GIB)


def test_what_cannot_be_read_is_unknown(tmp_path):
    memory = read_memory(grow(tmp_path, {"proc/meminfo": "MemTotal: much kB\nMemAvailable\n"}))
    assert memory == Memory() and memory.usable is None and memory.free is None
