"""Installing, listing, removing; and what a full disk, a rival or a kill leaves behind."""

import contextlib
import hashlib
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from blazar.errors import (
    DatabaseUnusable,
    ModelAmbiguous,
    ModelFileRefused,
    ModelNotFound,
    NameRefused,
    NameTaken,
    SchemaNewer,
    StoreUnwritable,
)
from blazar.models.alias import Alias
from blazar.models.base import close_database
from blazar.paths import Paths
from blazar.store.locks import locked
from blazar.store.store import Store
from tests.support.raw_gguf import gguf_bytes, write_gguf

REPOSITORY = Path(__file__).parents[3]

INSTALL = """
import os, signal, sys
from pathlib import Path
from blazar.errors import BlazarError
from blazar.paths import Paths
from blazar.store.store import Store
data, file, name, halt_at = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], float(sys.argv[4])
def progress(stage, done, total):
    if done >= halt_at * total:
        os.kill(os.getpid(), signal.SIGSTOP)
try:
    print(Store(Paths(data)).install_file(file, name, progress=progress))
except BlazarError as error:
    print("REFUSED", type(error).__name__, error)
"""
"""A program that installs a file, for what takes a process of its own; it stops itself at a share of the copy."""


@pytest.fixture
def store(tmp_path):
    yield Store(Paths(tmp_path / "data"))
    close_database()


def installer(store, file, name, before="", halt_at=2.0):
    """`INSTALL` running as another process, after the statements `before`."""
    argv = [sys.executable, "-c", before + INSTALL, str(store.paths.data_dir), str(file), name, str(halt_at)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONPATH": str(REPOSITORY)})


def blobs(store) -> dict[str, bool]:
    """File names in blobs/, and whether each holds what its name says."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() == file.stem
            for file in store.paths.blobs.iterdir()}


def unfinished(store) -> list[str]:
    return sorted(str(path.relative_to(store.paths.incoming)) for path in store.paths.incoming.rglob("*"))


def wait_until(check, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


# -- installing --------------------------------------------------------------------------------------------------


def test_install_list_and_describe(store, tmp_path):
    file = write_gguf(tmp_path / "m.gguf", {"general.name": "My Model", "general.license": "mit",
                                            "tokenizer.chat_template": "{{ tools }}", "llama.embedding_length": 64})
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    seen = []
    model = store.install_file(file, progress=lambda *step: seen.append(step))
    size = file.stat().st_size
    assert seen == [("install", 0, size), ("install", size, size)]
    assert model.pop("changed") is True
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", model.pop("modified_at"))
    assert model == {
        "name": "my-model:q4_0", "size": size, "digest": digest, "architecture": "llama", "family": "llama",
        "format": "gguf", "parameter_count": 64, "parameter_size": "64", "quantization": "Q4_0",
        "context_length": 4096, "capabilities": ["completion", "tools"], "embedding_length": 64,
            "pooling": 0}
    assert blobs(store) == {f"{digest}.gguf": True} and unfinished(store) == []
    assert (store.paths.blobs / f"{digest}.gguf").stat().st_mode & 0o777 == 0o644
    listed = store.list()
    assert [one["name"] for one in listed] == ["my-model:q4_0"]
    assert store.snapshot_models() == {"my-model:q4_0": listed[0]}
    found = store.describe("My-Model")
    assert {key: found[key] for key in listed[0]} == listed[0]
    assert found["template"] == "{{ tools }}" and found["license"] == "mit" and found["parameters"] == ""
    assert found["model_info"]["llama.context_length"] == 4096 and found["source"] == f"file {file}"
    installed = store.get("my-model:latest")
    assert installed.file.read_bytes() == file.read_bytes() and installed.facts.context_length == 4096
    assert file.exists()


@pytest.mark.parametrize(("title", "file_name", "name", "installed"), [
    ("Solo", "x.gguf", None, "solo:q4_0"),
    (None, "SmolLM2-135M-Instruct.Q4_1.gguf", None, "smollm2-135m-instruct:q4_0"),
    (None, "qwen3-8b-IQ3_XXS.gguf", None, "qwen3-8b:q4_0"),
    (None, "модель.gguf", None, "model:q4_0"),
    ("Solo", "x.gguf", "Chosen", "chosen:q4_0"),
    ("Solo", "x.gguf", "chosen:latest", "chosen:q4_0"),
    ("Solo", "x.gguf", "Owner/Chosen:Mine", "owner/chosen:mine"),
])
def test_names(store, tmp_path, title, file_name, name, installed):
    file = write_gguf(tmp_path / file_name, {"general.name": title})
    assert store.install_file(file, name)["name"] == installed


def test_a_file_name_that_is_no_text(store, tmp_path):
    file = write_gguf(tmp_path / os.fsdecode(b"so\xfflo\n.gguf"), {"general.name": None})
    assert store.install_file(file)["name"] == "so-lo:q4_0"
    assert store.describe("so-lo")["source"] == f"file {tmp_path}/so\ufffdlo\n.gguf"


def test_a_bad_name_is_refused_before_any_work(store, tmp_path):
    with pytest.raises(NameRefused):
        store.install_file(write_gguf(tmp_path / "m.gguf"), "../../etc/passwd")
    assert not store.paths.data_dir.exists()


def test_a_bad_file_leaves_nothing(store, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(gguf_bytes()[:-1])
    with pytest.raises(ModelFileRefused):
        store.install_file(tmp_path / "bad.gguf")
    assert store.list() == [] and blobs(store) == {}


def test_the_same_file_again_changes_nothing(store, tmp_path):
    file = write_gguf(tmp_path / "m.gguf")
    first = store.install_file(file, "solo")
    again = store.install_file(file, "solo:q4_0")
    assert (first.pop("changed"), again.pop("changed")) == (True, False)
    assert first == again and len(blobs(store)) == 1


def test_two_names_share_a_blob_until_the_last_is_removed(store, tmp_path):
    file = write_gguf(tmp_path / "m.gguf")
    store.install_file(file, "one")
    store.install_file(file, "two")
    assert len(blobs(store)) == 1 and len(store.list()) == 2
    assert store.remove("ONE")["freed"] == 0
    assert store.get("two").file.is_file()
    assert store.remove("two")["freed"] == file.stat().st_size
    assert blobs(store) == {} and store.list() == []
    with pytest.raises(ModelNotFound):
        store.remove("two")


def test_a_chosen_name_is_replaced_and_the_old_file_freed(store, tmp_path):
    old = store.install_file(write_gguf(tmp_path / "1.gguf", fill=b"1"), "solo")
    new = store.install_file(write_gguf(tmp_path / "2.gguf", fill=b"2"), "solo")
    assert old["digest"] != new["digest"] and new["changed"]
    assert blobs(store) == {f"{new['digest']}.gguf": True}
    assert store.get("solo").digest == new["digest"]


def test_a_title_that_is_taken_is_not_replaced(store, tmp_path):
    first = store.install_file(write_gguf(tmp_path / "1.gguf", {"general.name": "solo"}, fill=b"1"))
    with pytest.raises(NameTaken, match="--name"):
        store.install_file(write_gguf(tmp_path / "2.gguf", {"general.name": "solo"}, fill=b"2"))
    assert store.get("solo").digest == first["digest"]
    assert len(blobs(store)) == 1 and unfinished(store) == []


def test_references(store, tmp_path):
    q4 = write_gguf(tmp_path / "4.gguf", {"general.file_type": 2})
    q8 = write_gguf(tmp_path / "8.gguf", {"general.file_type": 7})
    for file, name in ((q4, "m"), (q8, "m"), (q4, "solo")):
        store.install_file(file, name)
    Alias.put("gpt-4o", "m:q8_0")
    assert store.aliases() == {"gpt-4o": "m:q8_0"}
    assert store.get("GPT-4o").name == "m:q8_0" and store.get("SOLO:latest").name == "solo:q4_0"
    with pytest.raises(ModelAmbiguous):
        store.describe("m")
    with pytest.raises(ModelNotFound, match="did you mean m:q4_0 or m:q8_0"):
        store.remove("m:nope")
    removed = store.remove("gpt-4o")
    assert (removed["freed"], removed["stays"]) == (0, True)
    assert store.aliases() == {} and [model["name"] for model in store.list()] == ["m:q4_0", "m:q8_0", "solo:q4_0"]
    store.alias("m:q8_0", "gpt-4o")
    store.remove("m:q8_0")
    assert store.aliases() == {} and [model["name"] for model in store.list()] == ["m:q4_0", "solo:q4_0"]


def test_a_model_takes_its_name_from_an_alias(store, tmp_path):
    store.install_file(write_gguf(tmp_path / "1.gguf"), "m")
    Alias.put("solo:q4_0", "m:q4_0")
    store.install_file(write_gguf(tmp_path / "2.gguf", fill=b"2"), "solo")
    assert store.aliases() == {} and store.get("solo").name == "solo:q4_0"


def test_a_file_gone_from_the_store_is_told_and_mended_by_another_pull(store, tmp_path):
    file = write_gguf(tmp_path / "m.gguf")
    store.install_file(file, "solo")
    os.truncate(store.get("solo").file, 5)
    with pytest.raises(ModelFileRefused, match="pull the model again"):
        store.get("solo")
    assert store.install_file(file, "solo")["changed"] is True
    assert list(blobs(store).values()) == [True]
    store.get("solo").file.unlink()
    assert store.describe("solo")["name"] == "solo:q4_0"
    store.remove("solo")
    assert store.list() == []


# -- disks and databases that refuse -----------------------------------------------------------------------------


def test_a_data_dir_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = Store(Paths(tmp_path / "file" / "data"))
    with pytest.raises(StoreUnwritable) as caught:
        store.list()
    assert "Not a directory" in caught.value.message and "--data-dir" in caught.value.message


def test_a_folder_that_is_gone_is_told(store, tmp_path):
    file = write_gguf(tmp_path / "m.gguf")
    store.list()
    store.paths.incoming.rmdir()
    store.paths.incoming.write_text("in the way")
    with pytest.raises(StoreUnwritable, match="Not a directory"):
        store.install_file(file)


def test_a_run_folder_that_was_taken_away_is_told(store):
    store.list()
    shutil.rmtree(store.paths.run)
    with pytest.raises(StoreUnwritable, match=r"No such file or directory.*put the folder back"), \
            locked(store.paths.store_lock):
        pass


def test_a_model_larger_than_the_free_space_is_refused_at_once(store, tmp_path):
    file = write_gguf(tmp_path / "m.gguf")
    os.truncate(file, 1 << 43)  # 8 TiB that are not there
    with pytest.raises(StoreUnwritable, match=r"needs 8\.0 TiB and .* are free"):
        store.install_file(file, progress=lambda *step: pytest.fail("it began to copy"))
    file.unlink()
    assert unfinished(store) == []


def test_a_disk_that_fills_up_leaves_nothing(store, tmp_path):
    """The largest allowed file size stands for a full disk: the write fails in the middle of the copy."""
    file = write_gguf(tmp_path / "m.gguf", elements=1 << 20)
    store.list()
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 21, 1 << 21))\n"
    with installer(store, file, "solo", before=limit) as process:
        output = process.communicate(timeout=30)[0]
    assert "REFUSED StoreUnwritable" in output and "File too large" in output
    assert blobs(store) == {} and unfinished(store) == [] and store.list() == []


def test_a_damaged_database_is_told_in_words(store, tmp_path):
    store.paths.ensure()
    store.paths.database.write_bytes(b"no database " * 500)
    with pytest.raises(DatabaseUnusable, match="not a SQLite file"):
        store.list()


def test_a_newer_database_is_refused(store):
    store.list()
    close_database()
    with contextlib.closing(sqlite3.connect(store.paths.database)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(SchemaNewer):
        Store(store.paths).list()


# -- rivals and kills --------------------------------------------------------------------------------------------


def test_two_processes_install_the_same_file(store, tmp_path):
    file = write_gguf(tmp_path / "m.gguf", elements=1 << 20)
    processes = [installer(store, file, "solo") for _ in range(2)]
    outputs = [process.communicate(timeout=30)[0] for process in processes]
    assert sorted(re.findall(r"'changed': (\w+)", "".join(outputs))) == ["False", "True"], outputs
    assert list(blobs(store).values()) == [True] and unfinished(store) == []
    assert [model["name"] for model in store.list()] == ["solo:q4_0"]


def test_threads_install_and_remove_together(store, tmp_path):
    files = [write_gguf(tmp_path / f"{number}.gguf", fill=bytes([number])) for number in range(4)]
    threads = [threading.Thread(target=store.install_file, args=(file, f"m{number}"))
               for number, file in enumerate(files)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.list()) == 4 and list(blobs(store).values()) == [True] * 4


def test_a_locked_database_is_waited_for(store, tmp_path):
    file = write_gguf(tmp_path / "m.gguf")
    store.list()
    holder = sqlite3.connect(store.paths.database, check_same_thread=False, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, holder.execute, ["COMMIT"])
    timer.start()
    assert store.install_file(file, "solo")["changed"] is True
    timer.join()
    holder.close()


def test_the_copy_does_not_hold_the_store(store, tmp_path):
    """While one installs a large file, another's short change goes through."""
    file = write_gguf(tmp_path / "m.gguf", elements=1 << 20)
    small = write_gguf(tmp_path / "s.gguf")
    seen = []

    def progress(stage, done, total):
        if done and not seen:
            seen.append(store.install_file(small, "small")["name"])

    store.install_file(file, "large", progress=progress)
    assert seen == ["small:q4_0"] and len(store.list()) == 2


@pytest.mark.parametrize("halt_at", [0.1, 1.0], ids=["copying", "copied"])
def test_kill_in_the_middle_of_an_install(store, tmp_path, halt_at):
    file = write_gguf(tmp_path / "m.gguf", elements=4 << 20)
    store.list()
    with installer(store, file, "solo", halt_at=halt_at) as process:
        wait_until(lambda: os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)[0])  # it has stopped itself
        process.kill()
    assert store.list() == [] and blobs(store) == {}
    assert unfinished(store) != []
    assert store.install_file(file, "solo")["changed"] is True
    assert list(blobs(store).values()) == [True] and unfinished(store) == []


def test_a_living_owner_s_folder_is_not_swept(store, tmp_path):
    file = write_gguf(tmp_path / "m.gguf")
    with store.workspace(1) as folder:
        (folder / "half").write_text("mine")
        store.install_file(file, "solo")
        assert (folder / "half").read_text() == "mine"
    assert not folder.exists()
    (store.paths.incoming / "left.partial").write_text("nobody's")
    with store.workspace(1):
        assert not (store.paths.incoming / "left.partial").exists()


def test_one_at_a_time_has_the_folder_of_a_named_work(store):
    order, inside = [], threading.Event()

    def second():
        def waiting(folder):
            order.append("waits")
            inside.set()
            time.sleep(0.01)
        with store.workspace(1, "work", waiting):
            order.append("second")

    thread = threading.Thread(target=second)
    with store.workspace(1, "work"):
        thread.start()
        assert inside.wait(10)
        order.append("first")
    thread.join(10)
    assert order[0] == "waits" and order[-1] == "second" and "first" in order
