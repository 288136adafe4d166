"""Damaged files of every kind: a dataset or one clean sentence, nothing else."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paota.data.load import load_dataset
from paota.errors import UserError

QUICK, LONG = 100, 5_000

NASTY = [
    b"\x00",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x00",
    b"\x80\x00\x00\x00",
    b"\xff" * 8,
    b"PK",
    b"'",
    b"(",
]
PLACE = st.one_of(st.floats(0, 1), st.integers(0, 40))  # anywhere, or in the header
CHANGE = st.one_of(
    st.tuples(st.just("put"), PLACE, st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from(NASTY))),
    st.tuples(st.just("insert"), PLACE, st.binary(min_size=1, max_size=8)),
    st.tuples(st.just("cut"), PLACE, st.binary(min_size=1, max_size=8)),
    st.tuples(st.just("end"), PLACE, st.just(b"")),
    st.tuples(st.just("repeat"), PLACE, st.binary(min_size=1, max_size=8)),
)


def damage(content: bytes, changes: list[tuple[str, float, bytes]]) -> bytes:
    for kind, place, value in changes:
        at = min(len(content), place if isinstance(place, int) else int(place * len(content)))
        before, after = content[:at], content[at:]
        content = {
            "put": before + value + after[len(value) :],
            "insert": before + value + after,
            "cut": before + after[len(value) :],
            "end": before,
            "repeat": before + after[: 16 * len(value)] + after,
        }[kind]
    return content


def rezip(content: bytes, change: Callable[[bytes], bytes], packing: int) -> bytes:
    """The same archive with one member changed and sound checksums, so that the damage reaches the array reader."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w", packing) as new:
        for name in old.namelist():
            new.writestr(name, change(old.read(name)) if name == "x_train.npy" else old.read(name))
    return buffer.getvalue()


def idx_file(name: str, pack: bool, repack: bool):
    def write(folder: Path, sound: dict[str, bytes], changes: list) -> Path:
        content = sound[name]
        content = gzip.compress(damage(content, changes)) if repack else damage(pack_if(pack, content), changes)
        (folder / "idx" / name).write_bytes(content)
        return folder / "idx"

    return write


def pack_if(pack: bool, content: bytes) -> bytes:
    return gzip.compress(content) if pack else content


def npz_file(name: str, packing: int | None):
    def write(folder: Path, sound: dict[str, bytes], changes: list) -> Path:
        content = sound[name]
        changed = damage(content, changes)
        if packing is not None:
            changed = rezip(content, lambda member: damage(member, changes), packing)
        (folder / "fuzzed.npz").write_bytes(changed)
        return folder / "fuzzed.npz"

    return write


TARGETS = {
    "idx images": idx_file("train-images-idx3-ubyte", pack=False, repack=False),
    "idx labels": idx_file("train-labels-idx1-ubyte", pack=False, repack=False),
    "gzip": idx_file("train-images-idx3-ubyte", pack=True, repack=False),
    "idx inside gzip": idx_file("train-images-idx3-ubyte", pack=True, repack=True),
    "npz": npz_file("plain.npz", packing=None),
    "packed npz": npz_file("packed.npz", packing=None),
    "npy inside npz": npz_file("plain.npz", packing=zipfile.ZIP_STORED),
    "npy inside packed npz": npz_file("packed.npz", packing=zipfile.ZIP_DEFLATED),
}


@pytest.fixture
def sound(tmp_path, write_folder, npz_bytes) -> dict[str, bytes]:
    write_folder(tmp_path / "idx")
    files = {path.name: path.read_bytes() for path in (tmp_path / "idx").iterdir()}
    ramp = np.linspace(0, 1, 6 * 4 * 5).reshape(6, 4, 5)
    files["plain.npz"] = npz_bytes(x_train=ramp, x_test=ramp[:3])
    files["packed.npz"] = npz_bytes(compressed=True)
    return files


def fuzz(folder: Path, sound: dict[str, bytes], target: str, examples: int) -> None:
    outcomes = {"loaded": 0, "refused": 0}

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(changes=st.lists(CHANGE, min_size=1, max_size=3))
    def attack(changes: list) -> None:
        path = TARGETS[target](folder, sound, changes)
        try:
            dataset = load_dataset(str(path))
        except UserError as error:
            outcomes["refused"] += 1
            sentence = str(error)
        else:
            outcomes["loaded"] += 1
            sentence = ""
            assert len(dataset.x_train) == len(dataset.y_train) >= 1
            assert np.isfinite(dataset.x_train).all()
            assert 0 <= dataset.y_train.min() <= dataset.y_train.max() < dataset.num_classes
        assert sentence.replace(str(folder), "").isprintable()
        assert len(sentence.replace(str(folder), "")) < 400

    attack()
    assert outcomes["refused"] > examples // 10  # the damage did get through to the checks


@pytest.mark.parametrize("target", TARGETS)
def test_damaged_files(tmp_path, sound, target):
    fuzz(tmp_path, sound, target, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_damaged_files_for_long(tmp_path, sound, target):
    fuzz(tmp_path, sound, target, LONG)
