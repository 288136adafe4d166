"""IDX folders: what loads, and the one sentence for everything that does not."""

from __future__ import annotations

import gzip
import os
import struct

import numpy as np
import pytest

from paota.base import bounded
from paota.base.errors import UserError
from paota.data.load import load_dataset

MIB = 2**20


@pytest.mark.parametrize("joint", ["-", "."])
@pytest.mark.parametrize("packed", [False, True])
def test_standard_names_load(tmp_path, arrays, write_folder, packed, joint):
    folder = write_folder(tmp_path / "mine", packed=packed, joint=joint)
    dataset = load_dataset(str(folder))
    assert dataset.name == "mine"
    assert dataset.num_classes == 3
    assert dataset.input_shape == (4, 5)
    assert dataset.x_train.dtype == np.uint8
    assert dataset.y_train.dtype == np.int32
    for key, expected in arrays.items():
        np.testing.assert_array_equal(getattr(dataset, key), expected)


def test_gzip_of_several_members_loads(tmp_path, arrays, make_idx, write_folder):
    folder = write_folder(tmp_path / "mine", packed=True)
    content = make_idx(arrays["x_train"])
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(content[:50]) + gzip.compress(content[50:]))
    np.testing.assert_array_equal(load_dataset(str(folder)).x_train, arrays["x_train"])


def test_one_class_only_works(tmp_path, write_folder):
    zeros, threes = np.zeros(6, np.uint8), np.full(6, 3, np.uint8)
    assert load_dataset(str(write_folder(tmp_path / "a", y_train=zeros, y_test=zeros[:3]))).num_classes == 2
    assert load_dataset(str(write_folder(tmp_path / "b", y_train=threes, y_test=zeros[:3]))).num_classes == 4


BROKEN = {
    "wrong magic": ("x_train", lambda b: b"\x00\x00\x0d\x03" + b[4:], "starts with 00000d03, not 00000803"),
    "labels with three axes": ("y_train", lambda b: b"\x00\x00\x08\x03" + b[4:], "starts with 00000803, not 00000801"),
    "no bytes": ("x_test", lambda b: b"", "is empty"),
    "half a header": ("x_train", lambda b: b[:9], "truncated inside its header"),
    "trailing byte": ("y_test", lambda b: b + b"\x00", "bytes left over after the 3 items"),
    "no items": ("x_train", lambda b: b[:4] + struct.pack(">3I", 0, 4, 5), "x_train is empty"),
    "images without pixels": ("x_train", lambda b: b[:4] + struct.pack(">3I", 6, 0, 5), "x_train is empty"),
    "fewer labels": ("y_train", lambda b: b[:4] + struct.pack(">I", 5) + b[8:13], "6 samples but y_train holds 5"),
    "other shape": ("x_test", lambda b: b[:4] + struct.pack(">3I", 3, 5, 4) + b[16:], "a sample has shape (4, 5) in"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_named_in_one_sentence(tmp_path, arrays, make_idx, write_folder, case, packed):
    key, damage, sentence = BROKEN[case]
    folder = write_folder(tmp_path / "mine", packed=packed, **{key: damage(make_idx(arrays[key]))})
    with pytest.raises(UserError) as caught:
        load_dataset(str(folder))
    assert sentence in str(caught.value)
    assert "mine" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_few_bytes(tmp_path, arrays, make_idx, write_folder):
    short = make_idx(arrays["x_train"])[:-1]
    with pytest.raises(UserError, match=r"header claims 6 items of 4 x 5 bytes, more than the 119 data bytes"):
        load_dataset(str(write_folder(tmp_path / "plain", x_train=short)))
    with pytest.raises(UserError, match=r"truncated, 1 of 120 data bytes are missing"):
        load_dataset(str(write_folder(tmp_path / "packed", packed=True, x_train=short)))


def test_missing_file_is_named(tmp_path, write_folder):
    folder = write_folder(tmp_path / "mine")
    (folder / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(UserError, match=r"mine: holds no file t10k-labels-idx1-ubyte \(nor t10k-labels-idx1-ubyte.gz"):
        load_dataset(str(folder))


def test_damaged_gzip(tmp_path, write_folder):
    folder = write_folder(tmp_path / "mine", packed=True)
    path = folder / "train-images-idx3-ubyte.gz"
    sound = path.read_bytes()
    path.write_bytes(sound[:-10])
    with pytest.raises(UserError, match="truncated, its gzip stream ends early"):
        load_dataset(str(folder))
    path.write_bytes(sound[:-8] + bytes(4) + sound[-4:])  # the last eight bytes are the checksum and the length
    with pytest.raises(UserError, match=r"cannot be read \(CRC check failed"):
        load_dataset(str(folder))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_and_folders_do_not_hang(tmp_path, write_folder):
    folder = write_folder(tmp_path / "mine")
    path = folder / "train-images-idx3-ubyte"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UserError, match="not an ordinary file"):
        load_dataset(str(folder))
    path.unlink()
    path.mkdir()
    with pytest.raises(UserError, match="not an ordinary file"):
        load_dataset(str(folder))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", [(2**20, 2**10, 2**10), (2**31, 1, 1), (2**32 - 1, 2**32 - 1, 2**32 - 1)])
def test_huge_claims_are_refused_before_memory_is_taken(tmp_path, write_folder, peak_bytes, shape, packed):
    claim = b"\x00\x00\x08\x03" + struct.pack(">3I", *shape) + bytes(100)
    folder = write_folder(tmp_path / "mine", packed=packed, x_train=claim)
    with peak_bytes() as peak:
        with pytest.raises(UserError, match="claims"):
            load_dataset(str(folder))
        assert peak() < MIB


def test_gzip_bomb_behind_a_small_claim(tmp_path, make_idx, write_folder, peak_bytes):
    """The stream has 32 MiB more after the six images: only what the header claims is unpacked."""
    folder = write_folder(tmp_path / "mine", packed=True)
    bomb = make_idx(np.zeros((6, 4, 5))) + bytes(32 * MIB)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bomb))
    with peak_bytes() as peak:
        with pytest.raises(UserError, match="bytes left over after the 6 items"):
            load_dataset(str(folder))
        assert peak() < MIB


def test_gzip_bomb_that_claims_what_it_holds(tmp_path, make_idx, write_folder, peak_bytes, monkeypatch):
    monkeypatch.setattr(bounded, "SMALL_BYTES", MIB)
    folder = write_folder(tmp_path / "mine", packed=True)
    bomb = gzip.compress(make_idx(np.zeros((16, 1024, 1024))))
    (folder / "train-images-idx3-ubyte.gz").write_bytes(bomb)
    with peak_bytes() as peak:
        with pytest.raises(UserError, match=f"grow from {len(bomb)} to {16 * MIB} bytes, like a decompression bomb"):
            load_dataset(str(folder))
        assert peak() < MIB


def test_the_size_limit_can_be_set(tmp_path, write_folder, monkeypatch):
    folder = write_folder(tmp_path / "mine")
    monkeypatch.setattr(bounded, "MAX_UNCOMPRESSED_BYTES", 119)
    with pytest.raises(UserError, match="claims 120 bytes, and the most allowed is 119"):
        load_dataset(str(folder))
    monkeypatch.setattr(bounded, "MAX_UNCOMPRESSED_BYTES", 120)
    assert len(load_dataset(str(folder)).x_train) == 6
