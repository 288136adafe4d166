"""Real OFDM waveforms against the engine: the received vector must be equal to rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paota
from paota.air.channel import combining_vector
from paota.air.precoding import precoded
from paota.air.settings import Air
from paota.air.uplink import Uplink, invert, per_subcarrier
from paota.air.waveform import (
    demodulate,
    from_symbols,
    modulate,
    read_sigmf,
    superpose_waveforms,
    to_symbols,
    write_sigmf,
)  # fmt: skip
from paota.base import settings

N, D, F, PREFIX = 4, 45, 8, 6


class Case:
    """Devices with payloads, amplitudes, taps, timing offsets and carrier phases, at some antennas."""

    def __init__(self, *, paths, antennas=1, packed=False, precoding=None, latest=float(PREFIX)):
        rng = np.random.default_rng(7)
        self.payload = rng.normal(size=(N, D)).astype(np.float32)
        self.amplitude = rng.uniform(0.5, 2.0, N)
        phase = np.exp(2j * np.pi * rng.uniform(size=(N, 1, 1)))  # of each device's carrier
        self.taps = phase * (rng.normal(size=(N, antennas, paths)) + 1j * rng.normal(size=(N, antennas, paths)))
        offset = rng.uniform(0, latest / 2, (N, 1))  # timing of each device
        self.delays = offset + (rng.uniform(0, latest / 2, (N, paths)) if paths > 1 else 0.0)
        turns = self.delays[:, :, None] * np.arange(F) / F
        self.h = np.einsum("nal,nlf->naf", self.taps, np.exp(-2j * np.pi * turns))
        self.combiner = np.ones((1, F))
        if antennas > 1:
            ready = jnp.ones(N, bool)
            combine = [combining_vector("sum", jnp.asarray(self.h[:, :, f]), ready) for f in range(F)]
            self.combiner = np.stack(combine, axis=1)
        channel = np.einsum("naf,af->nf", self.h, np.conj(self.combiner))
        air = settings.parse(Air, {"subcarriers": F, **({"precoding": precoding} if precoding else {})}, "air")
        uplink = Uplink(
            channel=jnp.asarray(channel), ready=jnp.ones(N, bool), noise_power_w=0.0, max_power_w=jnp.asarray(15.0),
            noise_key=jax.random.key(0), packed=packed,
        )  # fmt: skip
        self.uplink = precoded(air, uplink, per_subcarrier(jnp.asarray(self.payload) ** 2, F, packed))
        relative = np.ones((N, F)) if self.uplink.relative is None else np.asarray(self.uplink.relative)
        v = self.amplitude[:, None] * relative * np.conj(channel) / np.abs(channel) ** 2
        self.symbols = to_symbols(self.payload, F, packed) * v[:, None, :]
        self.packed = packed

    def by_engine(self):
        """The received vector of the compiled round."""
        precoder = invert(jnp.asarray(self.amplitude), self.uplink.channel)
        return np.asarray(self.uplink.transmit(precoder, jnp.asarray(self.payload)))

    def by_waveform(self):
        """The received vector of antennas that hear real samples."""
        count = self.symbols.shape[1]
        heard = np.zeros((count, F), complex)
        for antenna in range(self.taps.shape[1]):
            samples = superpose_waveforms(self.symbols, self.taps[:, antenna], self.delays, PREFIX)
            heard += np.conj(self.combiner[antenna]) * demodulate(samples, F, PREFIX, count)
        return from_symbols(heard, D, self.packed)


def error_of(case):
    expected = case.by_engine()
    return np.abs(case.by_waveform() - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("packed", [False, True], ids=["real", "packed"])
@pytest.mark.parametrize("antennas", [1, 3])
@pytest.mark.parametrize("paths", [1, 5], ids=["flat", "selective"])
def test_waveforms_give_what_the_engine_receives(paths, antennas, packed):
    assert error_of(Case(paths=paths, antennas=antennas, packed=packed)) < 1e-4


@pytest.mark.parametrize("precoding", ["truncated", "phase"])
def test_so_they_do_for_every_precoding(precoding):
    assert error_of(Case(paths=5, precoding=precoding)) < 1e-4


def test_beyond_the_prefix_symbols_interfere():
    assert error_of(Case(paths=5, latest=2.5 * PREFIX)) > 0.05


def test_radiated_power_is_that_of_the_account():
    """The useful part of the waveform has the energy of the symbols; the prefix adds its share on average."""
    case = Case(paths=5)
    expected = case.uplink.transmit_power_w(
        invert(jnp.asarray(case.amplitude), case.uplink.channel), jnp.asarray((case.payload**2).sum(axis=1))
    )
    sent = [np.sum(np.abs(modulate(symbols, 0)) ** 2) for symbols in case.symbols]
    np.testing.assert_allclose(sent, expected, rtol=1e-4)


def test_an_integer_delay_moves_the_samples():
    symbols = to_symbols(np.arange(16.0), F)
    plain = modulate(symbols, PREFIX)
    assert len(plain) == 2 * (F + PREFIX)
    np.testing.assert_allclose(modulate(symbols, PREFIX, delay=3.0), np.concatenate([np.zeros(3), plain]), atol=1e-12)
    np.testing.assert_allclose(plain[:PREFIX], plain[F : F + PREFIX], atol=1e-12)  # the prefix is the symbol's end


def test_noise_keeps_its_power():
    """White noise of sigma^2 per sample is white noise of sigma^2 per symbol."""
    rng = np.random.default_rng(3)
    noise = rng.normal(size=14_000) + 1j * rng.normal(size=14_000)
    symbols = demodulate(noise, F, PREFIX, 1000)
    assert abs(np.mean(np.abs(symbols) ** 2) / 2 - 1) < 4 / np.sqrt(symbols.size)


def test_a_recording_gives_the_next_model(tmp_path):
    """Each device's samples go through files; the sum gives the model that the engine computes."""
    case = Case(paths=1, latest=0.0)
    for k, symbols in enumerate(case.symbols):
        write_sigmf(tmp_path / f"device{k}", modulate(symbols, PREFIX), rate_hz=20e6, description="An update.")
    air = sum(case.taps[k, 0, 0] * read_sigmf(tmp_path / f"device{k}") for k in range(N))
    heard = from_symbols(demodulate(air, F, PREFIX, case.symbols.shape[1]), D)
    model = np.linspace(-1, 1, D)
    mean = heard / case.amplitude.sum()
    expected = case.by_engine() / case.amplitude.sum()
    np.testing.assert_allclose(model + mean, model + expected, atol=1e-5)


def test_files_that_are_no_recording_are_refused(tmp_path):
    with pytest.raises(paota.UserError):
        read_sigmf(tmp_path / "nothing")
    write_sigmf(tmp_path / "short", np.ones(3), rate_hz=1.0, description="Three samples.")
    (tmp_path / "short.sigmf-data").write_bytes(b"1234567")
    with pytest.raises(paota.UserError, match="short"):
        read_sigmf(tmp_path / "short")
    with pytest.raises(paota.UserError, match="do not fit"):
        demodulate(np.ones(20), F, PREFIX, 2)
