"""Damaged files of every kind: a dataset or one clean sentence, nothing else."""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paota.base.errors import UserError
from paota.data.load import load_dataset

QUICK, LONG = 100, 10_000

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


def cifar_batch(folder: Path, sound: dict[str, bytes], changes: list) -> Path:
    place = folder / "cifar-10-batches-bin"
    place.mkdir(exist_ok=True)
    for name, content in sound.items():
        if name.endswith(".bin"):
            (place / name).write_bytes(damage(content, changes) if name == "data_batch_2.bin" else content)
    return place


def cifar_archive(repack: bool):
    def write(folder: Path, sound: dict[str, bytes], changes: list) -> Path:
        content = damage(sound["cifar.tar" if repack else "cifar.tar.gz"], changes)
        (folder / "fuzzed.tar.gz").write_bytes(gzip.compress(content, 1) if repack else content)
        return folder / "fuzzed.tar.gz"

    return write


def npy_file(name: str):
    def write(folder: Path, sound: dict[str, bytes], changes: list) -> Path:
        place = folder / "npy"
        place.mkdir(exist_ok=True)
        for key in ("x_train", "y_train", "x_test", "y_test"):
            content = sound[f"{key}.npy"]
            (place / f"{key}.npy").unlink(missing_ok=True)  # the last example's map may still be open
            (place / f"{key}.npy").write_bytes(damage(content, changes) if key == name else content)
        return place

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
    "cifar batch": cifar_batch,
    "cifar archive": cifar_archive(repack=False),
    "tar inside cifar archive": cifar_archive(repack=True),
    "npy inputs": npy_file("x_train"),
    "npy labels": npy_file("y_train"),
}


@pytest.fixture
def sound(tmp_path, arrays, write_folder, npz_bytes, cifar_files, cifar_archive) -> dict[str, bytes]:
    write_folder(tmp_path / "idx")
    files = {path.name: path.read_bytes() for path in (tmp_path / "idx").iterdir()}
    ramp = np.linspace(0, 1, 6 * 4 * 5).reshape(6, 4, 5)
    files["plain.npz"] = npz_bytes(x_train=ramp, x_test=ramp[:3])
    files["packed.npz"] = npz_bytes(compressed=True)
    for key, array in arrays.items():
        np.save(tmp_path / "one.npy", array)
        files[f"{key}.npy"] = (tmp_path / "one.npy").read_bytes()
    files |= cifar_files
    files["cifar.tar.gz"], files["cifar.tar"] = (cifar_archive(packed=packed) for packed in (True, False))
    return files


def is_refused(folder: Path, sound: dict[str, bytes], target: str, changes: list[tuple[str, float, bytes]]) -> bool:
    """Write the target with these changes and load it: a sound dataset, or one clean sentence."""
    path = TARGETS[target](folder, sound, changes)
    try:
        dataset = load_dataset(str(path))
    except UserError as error:
        sentence = str(error).replace(str(folder), "")
        assert sentence.isprintable()
        assert len(sentence) < 400
        return True
    assert len(dataset.x_train) == len(dataset.y_train) >= 1
    assert np.isfinite(dataset.x_train).all()
    assert 0 <= dataset.y_train.min() <= dataset.y_train.max() < dataset.num_classes
    return False


@pytest.mark.parametrize("target", TARGETS)
def test_damaged_files(tmp_path, sound, target):
    refused = []

    @settings(max_examples=QUICK, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(changes=st.lists(CHANGE, min_size=1, max_size=3))
    def attack(changes: list) -> None:
        refused.append(is_refused(tmp_path, sound, target, changes))

    attack()
    assert sum(refused) > QUICK // 10  # the damage did get through to the checks


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_damaged_files_for_long(tmp_path, sound, target):
    """The same changes, drawn without Hypothesis, which takes longer to draw than we to load."""
    rng = random.Random(target)

    def change() -> tuple[str, float, bytes]:
        value = rng.choice([rng.randbytes(rng.randint(1, 8)), rng.choice(NASTY)])
        place = rng.choice([rng.random(), rng.randint(0, 40)])
        return rng.choice(["put", "insert", "cut", "end", "repeat"]), place, value

    refused = sum(
        is_refused(tmp_path, sound, target, [change() for _ in range(rng.randint(1, 3))]) for _ in range(LONG)
    )
    assert refused > LONG // 10
