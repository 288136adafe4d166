"""Channels from a file: ray tracing (Sionna RT, DeepMIMO), channel sounding, or anything else that makes an .npz file."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int

from ..base.errors import UserError
from ..base.files import read_npz
from ..base.settings import setting
from .settings import Air

PATHS = "a[num_rx, num_rx_ant, num_tx, num_tx_ant, num_paths, num_time] with tau[num_rx, num_tx, num_paths]"
DIRECT = "h[device, antenna, subcarrier, time]"


class RecordedChannel(NamedTuple):
    """The channels of a file inside a compiled program."""

    gain: Float[Array, " K"]  # mean |h|^2 of each device, power ratio
    parts: Float[Array, "T 2 K antennas F"]  # real and imaginary part, with a mean power of 1
    step_s: Float[Array, ""] | float

    def at(self, device: Int[Array, " n"], time_s: Float[Array, ""]) -> Complex[Array, "n antennas F"]:
        """Return the channels of these devices at a simulated time; the file starts again at its end."""
        step = jnp.floor(time_s / self.step_s).astype(int) % len(self.parts)
        real, imaginary = self.parts[step][:, device]
        return jax.lax.complex(real, imaginary)


@dataclass(frozen=True, kw_only=True)
class FileChannel:
    """The channel of device k is that of the k-th device in a file, as it is: with its path loss, and along its time axis.

    The .npz file holds `h[device, antenna, subcarrier, time]`, or the paths of Sionna RT: `a[num_rx, num_rx_ant, num_tx,
    num_tx_ant, num_paths, num_time]` and `tau[num_rx, num_tx, num_paths]` in s. There the server is the only receiver, or,
    because channels are reciprocal, the only transmitter. Path n gives a_n e^(-j 2 pi f tau_n) at f = 0, B/F, 2B/F, ...
    """

    channel_file: str = setting("", doc="An .npz file with the channels of all devices.")
    channel_step_s: float = setting(1.0, above=0, doc="Simulated seconds between two times of the file.")
    normalise: bool = setting(False, doc="Scale each device to a mean gain of 1, so that `path_loss` sets the gains.")

    def load(self, *, devices: int | None, antennas: int, subcarriers: int, bandwidth_hz: float) -> RecordedChannel:
        """Return the channels of the file, or raise a `UserError` that says what does not fit.

        Args:
            devices: K; None: all devices of the file.
            antennas: receive antennas.
            subcarriers: F.
            bandwidth_hz: bandwidth B.
        """
        path = Path(self.channel_file)
        if not self.channel_file or not path.is_file():
            raise UserError(f"air.channel_file: no such file '{self.channel_file}'")
        h = _response(path, path.stat().st_mtime_ns, subcarriers, bandwidth_hz)
        for found, name, wanted in zip(h.shape[1:3], ("antennas", "subcarriers"), (antennas, subcarriers), strict=True):
            if found != wanted:
                raise UserError(f"'{path}' has {found} {name} and air.{name} is {wanted}: set air.{name} = {found}")
        if devices is not None and len(h) < devices:
            raise UserError(f"'{path}' has {len(h)} devices and data.devices is {devices}: lower data.devices")
        gain = np.mean(np.abs(h[:devices]) ** 2, axis=(1, 2, 3))
        h = h[:devices] / np.sqrt(np.where(gain > 0, gain, 1.0))[:, None, None, None]
        parts = np.stack([h.real, h.imag]).transpose(4, 0, 1, 2, 3).astype(np.float32)
        kept = (gain > 0).astype(float) if self.normalise else gain
        return RecordedChannel(jnp.asarray(kept, float), jnp.asarray(parts), self.channel_step_s)


@functools.lru_cache(maxsize=4)
def _response(path: Path, modified_ns: int, subcarriers: int, bandwidth_hz: float) -> Complex[np.ndarray, "K A F T"]:
    """Return h of a file; `modified_ns` makes a changed file another one."""
    arrays = read_npz(path)
    names = ("h",) if "h" in arrays else ("a", "tau")
    if not all(name in arrays and arrays[name].ndim == {"h": 4, "a": 6, "tau": 3}[name] for name in names):
        shapes = ", ".join(f"{name}{list(array.shape)}" for name, array in arrays.items())
        raise UserError(f"'{path}' must hold {DIRECT}, or {PATHS}, and it holds {shapes or 'nothing'}")
    if any(not np.isfinite(arrays[name]).all() for name in names):
        raise UserError(f"'{path}' holds numbers that are not finite: write 0 for paths that do not exist")
    if "h" in arrays:
        return arrays["h"]
    a, tau = arrays["a"], arrays["tau"]
    if tau.shape != (a.shape[0], a.shape[2], a.shape[4]):
        raise UserError(f"'{path}': a{list(a.shape)} and tau{list(tau.shape)} do not fit together: {PATHS}")
    if a.shape[0] > 1:  # the server transmits and the devices receive
        a, tau = a.transpose(2, 3, 0, 1, 4, 5), tau.transpose(1, 0, 2)
    if a.shape[0] != 1 or a.shape[3] != 1:
        raise UserError(f"'{path}' must have one server and devices of one antenna: {PATHS}")
    turns = tau[0, :, :, None] * np.arange(subcarriers) * (bandwidth_hz / subcarriers)  # [K, paths, F]
    return np.einsum("aknt,knf->kaft", a[0, :, :, 0], np.exp(-2j * np.pi * turns))


def with_recorded_channels(air: Air, devices: int | None = None) -> Air:
    """Return settings whose channels are loaded, if they come from a file; others as they are.

    Args:
        air: the settings of `[air]`.
        devices: K; None: all devices of the file.
    """
    if not isinstance(air.fading, FileChannel):
        return air
    fading = air.fading.load(
        devices=devices, antennas=air.antennas, subcarriers=air.subcarriers, bandwidth_hz=air.bandwidth_hz
    )
    return replace(air, fading=fading)
