"""Archives as a stranger may make them: what is hostile is refused whole, and nothing lands outside."""

import contextlib
import gzip
import io
import os
import random
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from blazar.engines.install.archive import Limits, extract
from blazar.errors import ArchiveRefused
from tests.support.engine_builds import tar, zipped

DEFAULT = Limits()


def silent(stage, done, total):
    pass


def unpack(tmp_path: Path, content: bytes, limits: Limits = DEFAULT) -> Path:
    archive, folder = tmp_path / "a.tar.gz", tmp_path / "into"
    archive.write_bytes(content)
    folder.mkdir()
    extract(archive, folder, silent, limits)
    return folder


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def entries(*infos: tarfile.TarInfo) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.GNU_FORMAT) as archive:
        for info in infos:
            archive.addfile(info, io.BytesIO(b"x" * info.size))
    return packed.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0,
          mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, target, size, mode
    return info


@pytest.mark.parametrize("make", [tar, zipped])
def test_plain_files_and_whether_they_run(tmp_path, make):
    folder = unpack(tmp_path, make({"top/llama-server": b"#!", "top/lib/libx.so.1": b"elf"}))
    assert tree(folder) == {"top", "top/llama-server", "top/lib", "top/lib/libx.so.1"}
    assert (folder / "top/lib/libx.so.1").read_bytes() == b"elf"
    assert stat.S_IMODE((folder / "top/llama-server").stat().st_mode) == 0o755


@pytest.mark.parametrize(("mode", "kept"), [(0o6755, 0o755), (0o1777, 0o755), (0o666, 0o644), (0o4711, 0o755),
                                            (0o000, 0o644)])
def test_of_a_mode_only_may_be_run_is_kept(tmp_path, mode, kept):
    for make in (tar, zipped):
        place = tmp_path / make.__name__
        place.mkdir()
        folder = unpack(place, make({"f": b"1"}, mode=mode))
        assert stat.S_IMODE((folder / "f").stat().st_mode) == kept


def test_links_as_library_folders_have_them(tmp_path):
    folder = unpack(tmp_path, entries(
        entry("top/libx.so", tarfile.SYMTYPE, "libx.so.0"), entry("top/libx.so.0", tarfile.SYMTYPE, "libx.so.0.1"),
        entry("top/libx.so.0.1", size=3), entry("top/again", tarfile.LNKTYPE, "top/libx.so.0.1"),
        entry("top/bin/tool", tarfile.SYMTYPE, "../libx.so")))
    assert os.readlink(folder / "top/libx.so") == "libx.so.0" and (folder / "top/libx.so").read_bytes() == b"xxx"
    assert (folder / "top/again").stat().st_nlink == 2
    assert (folder / "top/bin/tool").read_bytes() == b"xxx"


HOSTILE = {
    "absolute": ([entry("/etc/cron.d/x", size=1)], "no plain path"),
    "up": ([entry("top/../../x", size=1)], "no plain path"),
    "up alone": ([entry("..", tarfile.DIRTYPE)], "no plain path"),
    "a backslash": ([entry("..\\x", size=1)], "no plain path"),
    "a control character": ([entry("a\nb", size=1)], "no plain path"),
    "a link to elsewhere": ([entry("x", tarfile.SYMTYPE, "/etc/passwd")], "leaves it"),
    "a link upwards": ([entry("top/x", tarfile.SYMTYPE, "../../y")], "leaves it"),
    "a link that leaves by way of another": (
        [entry("p/q", tarfile.DIRTYPE), entry("p/q/l", tarfile.SYMTYPE, "../.."),
         entry("p/q/m", tarfile.SYMTYPE, "l/../x")],
        "leaves it"),
    "a file through a link": ([entry("out", tarfile.SYMTYPE, "/tmp"), entry("out/x", size=1)], "is no folder"),
    "a link in place of a folder": ([entry("d", tarfile.DIRTYPE), entry("d", tarfile.SYMTYPE, "/tmp"),
                                     entry("d/x", size=1)], "twice"),
    "a hard link to elsewhere": ([entry("x", tarfile.LNKTYPE, "../../secret")], "no plain path"),
    "a hard link to nothing": ([entry("x", tarfile.LNKTYPE, "y")], "no file before it"),
    "a hard link to a link": ([entry("s", tarfile.SYMTYPE, "y"), entry("x", tarfile.LNKTYPE, "s")],
                              "no file before it"),
    "a character device": ([entry("null", tarfile.CHRTYPE)], "neither file, folder nor link"),
    "a block device": ([entry("sda", tarfile.BLKTYPE)], "neither file, folder nor link"),
    "a pipe": ([entry("fifo", tarfile.FIFOTYPE)], "neither file, folder nor link"),
    "a file twice": ([entry("x", size=1), entry("x", size=2)], "twice"),
    "a file below a file": ([entry("x", size=1), entry("x/y", size=1)], "is no folder"),
    "a link that goes round": ([entry("x", tarfile.SYMTYPE, "")], "leaves it"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_members_are_refused(tmp_path, kind):
    members, words = HOSTILE[kind]
    (tmp_path / "secret").write_text("mine")
    with pytest.raises(ArchiveRefused, match=words) as refused:
        unpack(tmp_path, entries(*members))
    assert refused.value.message.startswith("a.tar.gz was not unpacked: ")
    assert refused.value.message.endswith("; nothing of it was kept")
    assert {path.name for path in tmp_path.iterdir()} == {"a.tar.gz", "into", "secret"}
    assert not any(path.is_file() and not path.is_symlink() and path.read_bytes() == b"mine"
                   for path in (tmp_path / "into").rglob("*"))


def test_too_many_members(tmp_path):
    with pytest.raises(ArchiveRefused, match="over 10 entries"):
        unpack(tmp_path, tar({f"f{number}": b"" for number in range(11)}), Limits(members=10))


@pytest.mark.parametrize("make", [tar, zipped])
def test_a_bomb_of_zeros(tmp_path, make):
    content = make({"zeros": b"\0" * (4 << 20)})
    assert len(content) < 20_000
    with pytest.raises(ArchiveRefused, match=r"unpacks to over 1\.0 MiB"):
        unpack(tmp_path, content, Limits(free=1 << 20))
    assert sum(path.stat().st_size for path in (tmp_path / "into").rglob("*")) <= 1 << 20


def test_many_small_files_count_together(tmp_path):
    with pytest.raises(ArchiveRefused, match="unpacks to over"):
        unpack(tmp_path, tar({f"f{number}": b"\0" * 300_000 for number in range(4)}), Limits(free=1 << 20))


def test_a_header_that_claims_gigabytes(tmp_path):
    """A long name of 3 GiB: tarfile would read it whole before anybody could look at it."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 3 << 30
    with pytest.raises(ArchiveRefused, match="unpacks to over"):
        unpack(tmp_path, gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + b"\0" * 4096))


def test_a_file_that_claims_more_than_comes(tmp_path):
    with pytest.raises(ArchiveRefused, match="damaged"):
        unpack(tmp_path, gzip.compress(entry("x", size=1 << 20).tobuf() + b"x" * 512))


def test_a_zip_that_lies_about_its_size(tmp_path):
    """The directory says 10 bytes; 4 MiB come."""
    content = bytearray(zipped({"zeros": b"\0" * (4 << 20)}))
    place = content.rfind(b"PK\x01\x02")
    content[place + 24:place + 28] = (10).to_bytes(4, "little")
    with pytest.raises(ArchiveRefused):
        unpack(tmp_path, bytes(content), Limits(free=1 << 20))


def test_hostile_zips(tmp_path):
    def member(name: str, mode: int, content: bytes = b"x") -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content)
        return packed.getvalue()

    cases = [(member("../x", 0o100644), "no plain path"), (member("/x", 0o100644), "no plain path"),
             (member("x", stat.S_IFLNK | 0o777, b"/etc"), "leaves it"),
             (member("x", stat.S_IFIFO | 0o644), "neither file")]
    for number, (content, words) in enumerate(cases):
        place = tmp_path / str(number)
        place.mkdir()
        with pytest.raises(ArchiveRefused, match=words):
            unpack(place, content)


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty", "text", "plain tar"])
def test_damaged_archives(tmp_path, damage):
    whole = tar({"f": os.urandom(50_000)})
    content = {"truncated": whole[:len(whole) // 2], "changed": whole[:20_000] + b"\0\1\2" + whole[20_003:],
               "empty": b"", "text": b"<html>sorry</html>", "plain tar": gzip.decompress(whole)}[damage]
    with pytest.raises(ArchiveRefused, match="damaged"):
        unpack(tmp_path, content)


@pytest.mark.parametrize("name", ["x" * 300, "\u20ac" * 100, "/".join("a" * 40), "/".join(["d" * 200] * 6)])
@pytest.mark.parametrize("make", [tar, zipped])
def test_names_that_no_disk_takes(tmp_path, make, name):
    with pytest.raises(ArchiveRefused, match="too long or too deep"):
        unpack(tmp_path, make({name: b"x"}))


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_zips_that_are_packed_in_other_ways(tmp_path, method):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("a", b"x" * 1000)
    with pytest.raises(ArchiveRefused, match="packed in a way"):
        unpack(tmp_path, packed.getvalue())


@pytest.mark.parametrize("kinds", ["file file", "file symlink", "symlink symlink", "symlink file", "folder file"])
def test_what_comes_twice(tmp_path, kinds):
    types = {"file": tarfile.REGTYPE, "symlink": tarfile.SYMTYPE, "folder": tarfile.DIRTYPE}
    infos = []
    for kind in kinds.split():
        info = tarfile.TarInfo("same")
        info.type, info.linkname = types[kind], "x"
        infos.append(info)
    with pytest.raises(ArchiveRefused, match="twice"):
        unpack(tmp_path, entries(*infos))


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("make", [tar, zipped])
def test_bits_that_fell_over(tmp_path, make, seed):
    """Damage anywhere is refused in words, or harmless."""
    chance = random.Random(seed)
    packed = bytearray(make({"a": b"x" * 3000, "d/b": bytes(chance.randrange(256) for _ in range(300))}))
    if make is tar:
        packed = bytearray(gzip.decompress(packed))
    for _ in range(4):
        packed[chance.randrange(len(packed))] ^= 1 << chance.randrange(8)
    with contextlib.suppress(ArchiveRefused):
        unpack(tmp_path, gzip.compress(bytes(packed)) if make is tar else bytes(packed))
