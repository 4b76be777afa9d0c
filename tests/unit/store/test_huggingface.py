"""Reading listings: files, builds, quantisations. Tables."""

import pytest

from blazar.store.companions import companions, models, role_of
from blazar.store.huggingface import RemoteFile, builds_of, lacks_sizes, named, quantization_of, read_listing, read_tree

DIGEST = "a" * 64


@pytest.mark.parametrize(("path", "label"), [
    ("Qwen3-8B-Q4_K_M.gguf", "Q4_K_M"), ("Qwen3-0.6B.Q8_0.gguf", "Q8_0"), ("qwen2.5-coder-7b-q4_0.gguf", "q4_0"),
    ("gpt-oss-20b-mxfp4.gguf", "mxfp4"), ("gemma-4-E4B_q4_0-it.gguf", "q4_0"), ("x-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
    ("BF16/Qwen3-BF16-00001-of-00002.gguf", "BF16"), ("Q6_K/model-00001-of-00002.gguf", "Q6_K"), ("x.f16.gguf", "f16"),
    ("Phi-3-mini-4k-instruct-fp16.gguf", "fp16"), ("x-IQ4_XS.gguf", "IQ4_XS"), ("model.gguf", "model"),
    ("Q8-chat.gguf", "Q8-chat"), ("F16-tuned-Q5_K_S.gguf", "Q5_K_S"), ("x-Q4_K_M.GGUF", "Q4_K_M")])
def test_quantisations_in_names(path, label):
    assert quantization_of(path) == label


def test_builds_are_sorted_by_size_and_sets_are_one_each():
    files = [RemoteFile("a-Q8_0.gguf", 80), RemoteFile("b/a-F16-00002-of-00002.gguf", 90),
             RemoteFile("b/a-F16-00001-of-00002.gguf", 70), RemoteFile("a-Q4_0.gguf", 40),
             RemoteFile("c/a-F32-00001-of-00003.gguf", 500)]
    builds = builds_of(files)
    assert [(build.quantization, build.size, len(build.files), build.is_whole) for build in builds] == [
        ("Q4_0", 40, 1, True), ("Q8_0", 80, 1, True), ("F16", 160, 2, True), ("F32", 500, 1, False)]
    assert [file.size for file in builds[2].files] == [70, 90]
    assert named(builds, "q8_0") is builds[1] and named(builds, "A-Q4_0.GGUF") is builds[0]
    assert named(builds, "a-f16-00002-of-00002") is builds[2] and named(builds, "q5_0") is None


def test_part_numbers_that_make_no_sense_are_names():
    builds = builds_of([RemoteFile("a-00004-of-00002.gguf", 1), RemoteFile("b-00001-of-99999.gguf", 1)])
    assert all(build.parts == 1 for build in builds)


def test_a_listing():
    listing = read_listing("o/r", {"sha": "c" * 40, "cardData": {"license": "mit"}, "siblings": [
        {"rfilename": "a.gguf", "size": 5, "lfs": {"sha256": DIGEST, "size": 7}}, {"rfilename": "README.md", "size": 3},
        {"rfilename": "../b.gguf", "size": 3}, {"rfilename": "c.gguf"}, {"rfilename": 7, "size": 3}, "d.gguf", None,
        {"rfilename": "e.gguf", "size": -1}, {"rfilename": "f.gguf", "size": 3, "lfs": {"sha256": "no"}}]})
    assert (listing.commit, listing.license) == ("c" * 40, "mit")
    assert listing.files == (RemoteFile("a.gguf", 7, DIGEST), RemoteFile("README.md", 3), RemoteFile("f.gguf", 3))


def test_a_tree():
    files = read_tree([{"type": "directory", "path": "x"}, {"type": "file", "path": "x/a.gguf", "size": 9,
                                                            "lfs": {"oid": f"sha256:{DIGEST}", "size": 9}}, 5])
    assert files == (RemoteFile("x/a.gguf", 9, DIGEST),)


@pytest.mark.parametrize("plain", [{}, {"siblings": {}}, {"siblings": None}])
def test_what_is_no_listing(plain):
    with pytest.raises(ValueError, match="lists no files"):
        read_listing("o/r", plain)
    with pytest.raises(ValueError, match="lists no files"):
        read_tree(plain)


def test_sizes_may_be_missing():
    assert lacks_sizes({"siblings": [{"rfilename": "a.gguf"}]})
    assert not lacks_sizes({"siblings": [{"rfilename": "a.gguf", "size": 1}, {"rfilename": "README.md"}]})


@pytest.mark.parametrize(("name", "role"), [
    ("a-Q4_0.gguf", "model"), ("mmproj-F16.gguf", "projector"), ("x-mmproj-f16.gguf", "projector"),
    ("gemma-4-E4B-it-mmproj.gguf", "projector"), ("a-draft-Q4_0.gguf", "draft"), ("a_drafter.gguf", "draft"),
    ("Overdraft-7B-Q4_0.gguf", "model"), ("imatrix.gguf", ""), ("a-lora-F16.gguf", ""), ("README.md", ""),
    ("a.safetensors", "")])
def test_roles(name, role):
    assert role_of(RemoteFile(name, 1)) == role


def test_companions():
    model = RemoteFile("q8/a-Q8_0.gguf", 80)
    files = [model, RemoteFile("mmproj-F32.gguf", 9), RemoteFile("mmproj-BF16.gguf", 5), RemoteFile("mmproj-x.gguf", 1),
             RemoteFile("other/mmproj-F16.gguf", 5), RemoteFile("q8/a-draft-Q8_0.gguf", 8)]
    assert companions(files, model) == [("projector", files[2]), ("draft", files[5])]
    assert models(files) == [model]
    assert models(files[5:]) == files[5:] and companions(files[5:], files[5]) == []
