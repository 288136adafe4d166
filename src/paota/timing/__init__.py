"""Who takes part in which aggregation event, when, and from which model version. Host only, exact, independent of weights."""

from .latency import Latencies, LatencyModel, LogNormal, PerDevice, Trace, Uniform
from .schemes import asynchronous, buffered, grouped, periodic, synchronous
from .timeline import Horizon, Timeline

__all__ = [
    "Horizon", "Latencies", "LatencyModel", "LogNormal", "PerDevice", "Timeline", "Trace", "Uniform",
    "asynchronous", "buffered", "grouped", "periodic", "synchronous",
]  # fmt: skip
