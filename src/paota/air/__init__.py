"""What the radio channel does to the signals."""

from .fading import ChannelModel, Jakes, NoFading, Rayleigh, Rician
from .path_loss import LogDistance, NoPathLoss, PathLoss, UrbanMicro
from .uplink import Uplink, invert, noise_power_w

__all__ = [
    "ChannelModel", "Jakes", "LogDistance", "NoFading", "NoPathLoss", "PathLoss", "Rayleigh", "Rician", "Uplink",
    "UrbanMicro", "invert", "noise_power_w",
]  # fmt: skip
