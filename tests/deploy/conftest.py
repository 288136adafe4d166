"""Flower asks the network for updates and reports its use unless it is told not to; tests stay on loopback."""

import os

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"
