"""CIFAR-10: its archive, its folder, how it is found, and the one sentence for everything that is wrong with it."""

from __future__ import annotations

import gzip
import io
import tarfile

import numpy as np
import pytest

from paota.base import bounded
from paota.base.errors import UserError
from paota.data import cifar
from paota.data.load import load_dataset

MIB = 2**20


@pytest.fixture
def write(tmp_path, cifar_files):
    """write(data_batch_1.bin=..., ...): the folder of batches, with some files changed or (None) left out."""

    def make(**changed: bytes | None):
        folder = tmp_path / "cifar-10-batches-bin"
        folder.mkdir()
        for name, content in {**cifar_files, **changed}.items():
            if content is not None:
                (folder / name).write_bytes(content)
        return folder

    return make


def sentence_of(path) -> str:
    with pytest.raises(UserError) as caught:
        load_dataset(str(path))
    return str(caught.value)


def check(dataset, files):
    assert dataset.name == "cifar10"
    assert dataset.num_classes == 10
    assert dataset.x_train.shape == (15, 32, 32, 3)
    assert dataset.x_test.shape == (3, 32, 32, 3)
    assert dataset.x_train.dtype == np.uint8
    assert dataset.x_train.flags.c_contiguous
    assert dataset.y_train.tolist() == [i % 10 for i in range(15)]
    assert dataset.y_test.tolist() == [5, 6, 7]
    record = files["data_batch_2.bin"][2 * 3073 : 3 * 3073]  # the last image of the second batch
    for row, column, channel in ((0, 0, 0), (3, 30, 1), (31, 7, 2)):
        assert dataset.x_train[5, row, column, channel] == record[1 + 1024 * channel + 32 * row + column]


@pytest.mark.parametrize("name", ["cifar-10-binary.tar.gz", "mine.tgz", "cifar.tar"])
def test_archive(tmp_path, cifar_files, cifar_archive, name):
    (tmp_path / name).write_bytes(cifar_archive(packed=not name.endswith(".tar")))
    check(load_dataset(str(tmp_path / name)), cifar_files)
    assert [file.name for file in tmp_path.iterdir()] == [name]  # nothing was extracted


def test_folder_and_the_folder_around_it(tmp_path, write, cifar_files):
    check(load_dataset(str(write())), cifar_files)
    check(load_dataset(str(tmp_path)), cifar_files)


@pytest.mark.parametrize("packed", [False, True])
def test_by_name(tmp_path, monkeypatch, write, cifar_files, cifar_archive, packed):
    if packed:
        (tmp_path / "cifar-10-binary.tar.gz").write_bytes(cifar_archive())
    else:
        write()
    monkeypatch.setenv("PAOTA_DATA", str(tmp_path))
    check(load_dataset("cifar10"), cifar_files)


def test_by_name_says_what_to_download_and_where_to_put_it(tmp_path, monkeypatch):
    monkeypatch.delenv("PAOTA_DATA", raising=False)
    how = "download cifar-10-binary.tar.gz .* the environment variable PAOTA_DATA"
    with pytest.raises(UserError, match=f"'cifar10' is not shipped: {how}"):
        load_dataset("cifar10")
    monkeypatch.setenv("PAOTA_DATA", str(tmp_path))
    with pytest.raises(UserError, match=f"'cifar10' is not in .*: {how}"):
        load_dataset("cifar10")


@pytest.mark.parametrize("place", ["cifar-10-batches-py", "."])
def test_the_pickled_folder_is_refused(tmp_path, place):
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"\x80\x02}")
    assert "is the pickled version of CIFAR-10, and pickles are never loaded: download" in sentence_of(tmp_path / place)


def test_the_pickled_archive_is_refused(tmp_path, cifar_archive):
    path = tmp_path / "any.tar.gz"
    path.write_bytes(cifar_archive(folder="cifar-10-batches-py", files={"data_batch_1": b"\x80\x02}"}))
    assert "is the pickled version of CIFAR-10" in sentence_of(path)


BROKEN = {
    "wrong record size": (lambda b: b[:-1], "holds 9218 bytes, not whole records of 3073"),
    "no bytes": (lambda b: b"", "holds 0 bytes, not whole records"),
    "a record short": (lambda b: b[:-3073], "data_batch_3.bin holds 2 images where others hold 3: cut short?"),
    "label out of range": (
        lambda b: b[:3073] + b"\x0a" + b[3074:],
        "data_batch_3.bin: record 1 has the label 10, and labels are 0 to 9",
    ),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", BROKEN)
def test_broken_batches(tmp_path, write, cifar_files, cifar_archive, case, packed):
    change, sentence = BROKEN[case]
    changed = {"data_batch_3.bin": change(cifar_files["data_batch_3.bin"])}
    if packed:
        path = tmp_path / "cifar.tar.gz"
        path.write_bytes(cifar_archive(files={**cifar_files, **changed}))
    else:
        path = write(**changed)
    assert sentence in sentence_of(path)
    assert str(path) in sentence_of(path)


def test_missing_batches_are_named(write):
    assert "lacks data_batch_4.bin, test_batch.bin of CIFAR-10" in sentence_of(
        write(**{"data_batch_4.bin": None, "test_batch.bin": None})
    )


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("packed", [False, True])
def test_archive_cut_short(tmp_path, cifar_archive, packed, share):
    content = cifar_archive(packed=packed)
    end = len(content) if packed else len(content.rstrip(b"\0"))  # tar fills its last 10 KiB with zeros
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(content[: int(share * end)])
    assert "is truncated" in sentence_of(path)


def test_archive_cut_between_two_members(tmp_path, cifar_archive):
    path = tmp_path / "cifar.tar"
    path.write_bytes(cifar_archive(packed=False)[: 2 * 512 + 512])  # the folder, and the first file's header and block
    assert "is truncated, or no tar archive: the mark of its end is missing" in sentence_of(path)


def test_damaged_checksums_are_noticed(tmp_path, cifar_archive):
    content = bytearray(cifar_archive())
    content[-6] ^= 1  # gzip's checksum
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(content)
    assert "cannot be read (CRC check failed" in sentence_of(path)
    path.write_bytes(b"no archive at all" * 100)
    assert "is damaged, or no tar archive" in sentence_of(path)


def claiming(size: int) -> bytes:
    """Return an archive whose only member claims `size` bytes and holds none."""
    entry = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
    entry.size = size
    return entry.tobuf(tarfile.USTAR_FORMAT)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (claiming(8 * 2**30 - 1), "like a decompression bomb"),
        (claiming(3073 * 10_000), "is truncated, 30730000 of 30730000 data bytes are missing"),
    ],
)
def test_claims_are_checked_before_memory_is_taken(tmp_path, peak_bytes, content, sentence):
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(gzip.compress(content))
    with peak_bytes() as peak:
        assert sentence in sentence_of(path)
        assert peak() < 40 * MIB


def test_a_long_name_of_many_bytes_is_not_kept(tmp_path, peak_bytes, cifar_files, monkeypatch):
    """The standard library's reader would take all of it into memory."""
    monkeypatch.setattr(bounded, "MAX_EXPANSION", 10_000)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("x" * (32 * MIB)))
        for name, content in cifar_files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(buffer.getvalue())
    del buffer
    with peak_bytes() as peak:
        check(cifar.load_from(path), cifar_files)
        assert peak() < 8 * MIB
