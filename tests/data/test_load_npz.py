"""NPZ files: what loads, and the one sentence for everything that does not."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from paota.base import bounded
from paota.base.errors import UserError
from paota.data.dataset import Dataset
from paota.data.load import load_dataset

MIB = 2**20
RAMP = np.linspace(-1.0, 1.0, 6 * 20).reshape(6, 4, 5)


def load(tmp_path: Path, content: bytes):
    path = tmp_path / "mine.npz"
    path.write_bytes(content)
    return load_dataset(str(path))


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(content: dict[str, bytes], packing: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for name, value in content.items():
            archive.writestr(name, value)
    return buffer.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
def test_pixels_load(tmp_path, arrays, npz_bytes, compressed):
    dataset = load(tmp_path, npz_bytes(compressed=compressed))
    assert dataset.name == "mine.npz"
    assert dataset.num_classes == 3
    assert dataset.x_train.dtype == np.uint8
    for key, expected in arrays.items():
        np.testing.assert_array_equal(getattr(dataset, key), expected)


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_floats_become_float32(tmp_path, npz_bytes, dtype, order):
    x = np.asarray(RAMP, dtype=dtype, order=order)
    dataset = load(tmp_path, npz_bytes(x_train=x, x_test=x[:3]))
    assert dataset.x_train.dtype == np.float32
    assert dataset.x_train.flags.c_contiguous
    np.testing.assert_array_equal(dataset.x_train, x.astype(np.float32))


@pytest.mark.parametrize("dtype", ["u1", "i2", "<i4", ">i8", "u8", "f4", "f8"])
def test_labels_of_any_whole_number_type(tmp_path, npz_bytes, dtype):
    labels = np.array([0, 1, 2, 2, 1, 0]).astype(dtype)
    dataset = load(tmp_path, npz_bytes(y_train=labels, y_test=labels[:3, None]))  # [N] and [N, 1]
    np.testing.assert_array_equal(dataset.y_train, [0, 1, 2, 2, 1, 0])
    np.testing.assert_array_equal(dataset.y_test, [0, 1, 2])


def test_other_members_and_colour_images(tmp_path, npz_bytes):
    colour = np.zeros((6, 8, 8, 3), np.uint8)
    dataset = load(tmp_path, npz_bytes(x_train=colour, x_test=colour[:3], note=np.array("ignored")))
    assert dataset.input_shape == (8, 8, 3)


def test_a_header_in_another_style_loads(tmp_path, arrays, npz_bytes):
    """The format allows any order of keys, version 2 headers, and Python 2's long numbers."""
    content = members(npz_bytes())
    header = b'{"shape": (6L,), "fortran_order": False, "descr": "|u1"}\n'
    start = b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header))
    content["y_train.npy"] = start + header + arrays["y_train"].tobytes()
    np.testing.assert_array_equal(load(tmp_path, zipped(content)).y_train, arrays["y_train"])


def with_value(value: float) -> np.ndarray:
    changed = RAMP.copy()
    changed[3, 2, 1] = value
    return changed


BROKEN = {
    "missing key": ({"y_test": None}, "lacks y_test (it holds x_test, x_train, y_train)"),
    "NaN": ({"x_train": with_value(np.nan), "x_test": RAMP[:3]}, "x_train holds NaN or infinite values"),
    "infinite": ({"x_train": RAMP, "x_test": with_value(-np.inf)[3:]}, "x_test holds NaN or infinite values"),
    "beyond float32": ({"x_train": with_value(1e300), "x_test": RAMP[:3]}, "(or values beyond float32)"),
    "negative label": ({"y_train": np.array([0, 1, -2, 0, 0, 0])}, "y_train holds the negative label -2"),
    "fraction": ({"y_train": np.array([0, 1, 0.5, 0, 0, 0])}, "y_train holds labels that are not whole numbers"),
    "NaN label": ({"y_test": np.array([0, 1, np.nan])}, "y_test holds labels that are not whole numbers"),
    "label too large": ({"y_test": np.array([0, 1, 2**40])}, f"y_test holds the label {2**40}, and the largest"),
    "uint64 label": ({"y_test": np.array([0, 1, 2**64 - 1], np.uint64)}, f"holds the label {2**64 - 1}, and"),
    "one-hot labels": ({"y_train": np.eye(6)}, "y_train has shape (6, 6)"),
    "single label": ({"y_train": np.array(3)}, "y_train has shape ()"),
    "text labels": ({"y_train": np.array(list("abcdef"))}, "y_train: is not a plain array of numbers"),
    "yes/no labels": ({"y_train": np.ones(6, bool)}, "y_train holds bool"),
    "complex data": ({"x_train": RAMP.astype(complex)}, "x_train holds complex128; save it as uint8"),
    "records": ({"x_train": np.zeros(6, [("a", "f4")])}, "x_train: is not a plain array of numbers"),
    "whole numbers": ({"x_train": np.zeros((6, 4, 5), np.int64)}, "x_train holds int64; save it as uint8"),
    "mixed types": ({"x_train": RAMP}, "x_train is float32 but x_test is uint8"),
    "no samples": ({"x_train": RAMP[:0], "y_train": np.zeros(0, int)}, "x_train is empty (shape (0, 4, 5))"),
    "no features": ({"x_train": np.zeros((6, 0))}, "x_train is empty (shape (6, 0))"),
    "one axis": ({"x_train": np.zeros(6)}, "x_train has shape (6,), but needs one axis for samples"),
    "no axis": ({"x_train": np.float32(1)}, "x_train has shape (1,), but needs one axis for samples"),
    "fewer labels": ({"y_train": np.zeros(5, int)}, "x_train holds 6 samples but y_train holds 5 labels"),
    "other shape": ({"x_test": np.zeros((3, 20), np.uint8)}, "(4, 5) in x_train but (20,) in x_test"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_arrays_are_named_in_one_sentence(tmp_path, npz_bytes, case):
    changes, sentence = BROKEN[case]
    with pytest.raises(UserError) as caught:
        load(tmp_path, npz_bytes(**changes))
    assert sentence in str(caught.value)
    assert "mine.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


class Trap:
    """A pickle of this would write a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.write_text, (self.path, "sprung"))


def test_pickles_are_never_loaded(tmp_path, npz_bytes):
    marker = tmp_path / "sprung"
    trap = np.array([Trap(marker)] * 6, dtype=object)
    content = npz_bytes(y_train=trap)
    pickle.loads(members(content)["y_train.npy"][128:])  # the trap works ...
    assert marker.exists()
    marker.unlink()
    with pytest.raises(UserError, match=r"y_train: is not a plain array of numbers \(objects and records"):
        load(tmp_path, content)
    assert not marker.exists()  # ... and is not sprung


@pytest.mark.parametrize("content", [b"", b"PK", b"hello, world", b"PK\x03\x04" + bytes(100)])
def test_not_a_zip(tmp_path, content):
    with pytest.raises(UserError, match=r"mine.npz: cannot be read as .npz \(File is not a zip file"):
        load(tmp_path, content)


def test_a_truncated_zip_never_loads(tmp_path, npz_bytes):
    sound = npz_bytes()
    for length in range(0, len(sound), 41):
        with pytest.raises(UserError, match=r"cannot be read as .npz"):
            load(tmp_path, sound[:length])


def test_a_member_that_is_no_array(tmp_path, npz_bytes):
    content = members(npz_bytes())
    for bad in (b"", b"hello", b"\x93NUMPY\x09\x00" + bytes(100)):
        with pytest.raises(UserError, match="x_test: is not a NumPy array"):
            load(tmp_path, zipped({**content, "x_test.npy": bad}))
    with pytest.raises(UserError, match="x_test: is truncated inside its array header"):
        load(tmp_path, zipped({**content, "x_test.npy": content["x_test.npy"][:60]}))
    long_header = b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + bytes(100)
    with pytest.raises(UserError, match=f"x_test: has an array header of {2**31} bytes"):
        load(tmp_path, zipped({**content, "x_test.npy": long_header}))


def test_wrong_amount_of_data(tmp_path, npz_bytes):
    content = members(npz_bytes())
    with pytest.raises(UserError, match=r"x_test: its header claims shape \(3, 4, 5\), more than the 59 bytes"):
        load(tmp_path, zipped({**content, "x_test.npy": content["x_test.npy"][:-1]}))
    with pytest.raises(UserError, match=r"x_test: has 2 bytes left over after shape \(3, 4, 5\)"):
        load(tmp_path, zipped({**content, "x_test.npy": content["x_test.npy"] + b"xx"}))


@pytest.mark.parametrize("shape", [f"({2**20}, {2**10}, {2**10})", f"({10**17}, {10**17}, {10**17})", f"(0, {10**17})"])
@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_huge_shapes_are_refused_before_memory_is_taken(tmp_path, npz_bytes, peak_bytes, shape, packing):
    content = members(npz_bytes())
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    content["x_train.npy"] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    with peak_bytes() as peak:
        with pytest.raises(UserError, match=r"header claims shape|x_train is empty|does not fit in memory"):
            load(tmp_path, zipped(content, packing))
        assert peak() < MIB


@pytest.mark.parametrize(
    "shape", ["(6, 4, 5", "(6 4 5)", "(-6,)", "(1" + "0" * 30 + ",)", "(" + "1, " * 40 + ")", "(LL,)", "(6,\x1f 4\x9b)"]
)
def test_impossible_shapes(tmp_path, npz_bytes, shape):
    content = members(npz_bytes())
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    content["x_train.npy"] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(120)
    with pytest.raises(
        UserError, match=r"x_train: (is not a plain array|has an array header with an impossible shape)"
    ) as refused:
        load(tmp_path, zipped(content))
    assert str(refused.value).isprintable()


def test_zip_bomb(tmp_path, npz_bytes, peak_bytes, monkeypatch):
    monkeypatch.setattr(bounded, "SMALL_BYTES", MIB)
    bomb = npz_bytes(compressed=True, x_train=np.zeros((6, 16 * MIB), np.uint8))
    with peak_bytes() as peak:
        with pytest.raises(
            UserError, match=r"x_train: claims to grow from \d+ to \d+ bytes, like a decompression bomb"
        ):
            load(tmp_path, bomb)
        assert peak() < MIB


def test_the_four_arrays_share_the_size_limit(tmp_path, npz_bytes, monkeypatch):
    total = sum(len(value) for value in members(npz_bytes()).values())
    monkeypatch.setattr(bounded, "MAX_UNCOMPRESSED_BYTES", total - 1)
    with pytest.raises(
        UserError, match=f"all arrays together: claims {total} bytes, and the most allowed is {total - 1}"
    ):
        load(tmp_path, npz_bytes())
    monkeypatch.setattr(bounded, "MAX_UNCOMPRESSED_BYTES", total)
    assert len(load(tmp_path, npz_bytes()).x_train) == 6


def patched_directory(content: bytes, offset: int, value: bytes) -> bytes:
    """Change bytes of the first member's entry in the zip's central directory, which is what zipfile believes."""
    start = content.index(b"PK\x01\x02") + offset
    return content[:start] + value + content[start + len(value) :]


LIES = {
    "unpacked size too large": (24, struct.pack("<I", 2**31), "x_train: claims to grow|stores|claims 2147483648"),
    "unpacked size too small": (24, struct.pack("<I", 140), "more than the 12 bytes it holds|but stores|Bad CRC-32"),
    "packed size too large": (20, struct.pack("<I", 2**31), "packed bytes, more than the whole file"),
    "encrypted": (8, struct.pack("<H", 1), "x_train: is encrypted"),
    "packed with lzma": (10, struct.pack("<H", 14), "x_train: is packed in a way that np.savez never uses"),
    "wrong checksum": (16, struct.pack("<I", 12345), "Bad CRC-32"),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("case", LIES)
def test_a_lying_directory(tmp_path, npz_bytes, peak_bytes, case, compressed):
    offset, value, sentence = LIES[case]
    content = patched_directory(npz_bytes(compressed=compressed), offset, value)
    with peak_bytes() as peak:
        with pytest.raises(UserError, match=sentence):
            load(tmp_path, content)
        assert peak() < MIB


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28)])
def test_channels_first_is_refused(shape):
    """[C, H, W] would be taken for a strip C pixels high with W channels, silently."""
    x, y = np.zeros((4, *shape), np.uint8), np.arange(4) % 2
    with pytest.raises(UserError, match=r"look like channels first.*np.moveaxis\(x, 1, -1\)"):
        Dataset.from_arrays(name="mine", x_train=x, y_train=y, x_test=x, y_test=y)
    turned = np.moveaxis(x, 1, -1)
    assert (
        Dataset.from_arrays(name="mine", x_train=turned, y_train=y, x_test=turned, y_test=y).input_shape[-1] == shape[0]
    )
