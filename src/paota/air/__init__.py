"""What the radio channel does to the signals."""

from .fading import ChannelModel, NoFading, Rayleigh
from .uplink import Uplink, noise_power_w

__all__ = ["ChannelModel", "NoFading", "Rayleigh", "Uplink", "noise_power_w"]
