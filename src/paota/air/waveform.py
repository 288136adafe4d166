"""OFDM waveforms: the samples that devices would send, and what a receiver makes of their sum.

The engine computes with one number per subcarrier. This module sends the samples themselves: inverse Fourier transform,
cyclic prefix, taps with any delays, superposition, Fourier transform. Both agree as long as no path and no timing offset
arrives later than the prefix is long. Beyond it, symbols and subcarriers interfere, which the engine neglects.

Axes: n devices, d parameters, S OFDM symbols, F subcarriers, L taps, N samples at the rate B.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from jaxtyping import Complex, Float

from ..base.bounded import read_regular
from ..base.errors import UserError
from ..base.files import atomic, read_json, write_json

MAX_SAMPLE_BYTES = 2**32


def to_symbols(
    payload: Float[np.ndarray, "... d"], subcarriers: int, packed: bool = False
) -> Complex[np.ndarray, "... S F"]:
    """Return the symbols of payloads: one parameter each, or two if `packed`; zeros fill the last OFDM symbol."""
    each = 2 if packed else 1
    padding = -payload.shape[-1] % (subcarriers * each)
    padded = np.pad(payload, [(0, 0)] * (payload.ndim - 1) + [(0, padding)])
    parts = padded.reshape(*payload.shape[:-1], -1, subcarriers, each)
    return parts[..., 0] + (1j * parts[..., 1] if packed else 0j)


def from_symbols(
    symbols: Complex[np.ndarray, "S F"], num_parameters: int, packed: bool = False
) -> Float[np.ndarray, " d"]:
    """Return the parameters that `to_symbols` has put into symbols."""
    parts = np.stack([symbols.real, symbols.imag], axis=-1) if packed else symbols.real
    return parts.reshape(-1)[:num_parameters]


def modulate(symbols: Complex[np.ndarray, "S F"], prefix: int, delay: float = 0.0) -> Complex[np.ndarray, " N"]:
    """Return the samples of OFDM symbols with cyclic prefixes, as they arrive after a delay.

    Args:
        symbols: symbols on the subcarriers at 0, B/F, 2B/F, ...
        prefix: samples of the cyclic prefix.
        delay: not negative, in samples; fractions are exact.
    """
    whole = math.ceil(delay)
    turned = symbols * np.exp(2j * np.pi * np.arange(symbols.shape[1]) * (whole - delay) / symbols.shape[1])
    useful = np.fft.ifft(turned, axis=1, norm="ortho")
    samples = np.concatenate([useful[:, useful.shape[1] - prefix :], useful], axis=1).ravel()
    return np.concatenate([np.zeros(whole, complex), samples])


def demodulate(
    samples: Complex[np.ndarray, " N"], subcarriers: int, prefix: int, count: int
) -> Complex[np.ndarray, "S F"]:
    """Return the symbols in the first `count` windows behind the cyclic prefixes; later samples have no effect."""
    length = subcarriers + prefix
    if len(samples) < count * length:
        raise UserError(f"{count} OFDM symbols of {length} samples do not fit into {len(samples)} samples")
    return np.fft.fft(samples[: count * length].reshape(count, length)[:, prefix:], axis=1, norm="ortho")


def superpose_waveforms(
    symbols: Complex[np.ndarray, "n S F"],
    taps: Complex[np.ndarray, "n L"],
    delays: Float[np.ndarray, "n L"],
    prefix: int,
) -> Complex[np.ndarray, " N"]:
    """Return the sum of all devices' waveforms at one antenna.

    Args:
        symbols: what each device sends, precoded.
        taps: complex gain of each path, with the phase of the device's carrier.
        delays: delay of each path in samples, with the device's timing offset.
        prefix: samples of the cyclic prefix.
    """
    parts = [
        gain * modulate(sent, prefix, delay)
        for sent, gains, late in zip(symbols, taps, delays, strict=True)
        for gain, delay in zip(gains, late, strict=True)
    ]
    total = np.zeros(max(map(len, parts)), complex)
    for part in parts:
        total[: len(part)] += part
    return total


def write_sigmf(path: str | Path, samples: Complex[np.ndarray, " N"], *, rate_hz: float, description: str) -> None:
    """Write samples as a SigMF recording: PATH.sigmf-data (interleaved complex64) and PATH.sigmf-meta.

    Args:
        path: the two files without their endings.
        samples: baseband samples; amplitude 1 is a power of 1 W.
        rate_hz: samples per second, the bandwidth B.
        description: a sentence for the metadata.
    """
    facts = {
        "core:datatype": "cf32_le",
        "core:version": "1.0.0",
        "core:sample_rate": rate_hz,
        "core:description": description,
    }
    meta = {"global": facts, "captures": [{"core:sample_start": 0}], "annotations": []}
    with atomic(Path(f"{path}.sigmf-data")) as stream:
        stream.write(samples.astype("<c8").tobytes())
    write_json(Path(f"{path}.sigmf-meta"), meta)


def read_sigmf(path: str | Path) -> Complex[np.ndarray, " N"]:
    """Return the samples of a SigMF recording of interleaved complex64.

    Args:
        path: the two files without their endings.
    """
    facts = read_json(Path(f"{path}.sigmf-meta"))
    kind = facts.get("global") if isinstance(facts, dict) else None
    data = read_regular(Path(f"{path}.sigmf-data"), most=MAX_SAMPLE_BYTES)
    if not isinstance(kind, dict) or kind.get("core:datatype") != "cf32_le" or len(data) % 8:
        raise UserError(f"'{path}.sigmf-meta' and '{path}.sigmf-data' are not a recording of whole samples of cf32_le")
    return np.frombuffer(data, "<c8").astype(complex)
