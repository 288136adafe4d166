"""The compared frameworks: script, environment, and the settings among which the fastest is taken."""

from __future__ import annotations

import os
from dataclasses import dataclass

CORES = str(os.cpu_count() or 1)


@dataclass(frozen=True)
class Peer:
    """One competitor. Of several variants the runner keeps the one that is fastest after warming up."""

    name: str
    script: str
    environment: str | None  # None: the Python that runs the benchmark, which has paota
    variants: tuple[tuple[str, ...], ...] = ((),)
    floor: float | None = None  # how many times as long as ours a round must take


OURS = "paota"

PEERS = (
    Peer(OURS, "ours.py", None, (("paota",),)),
    Peer("paota, local SGD without air", "ours.py", None, (("local-sgd",),)),
    Peer(
        "torch.func.vmap, torch.compile", "torch_vmap.py", "torch",
        (("1", "step"), (CORES, "step"), ("1", "round"), (CORES, "round")), floor=1.4,
    ),
    Peer("JAX vmap inside jit", "jax_vmap.py", "jax", floor=2.0),
    Peer("torch.func.vmap", "torch_vmap.py", "torch", (("1", "nothing"), (CORES, "nothing")), floor=2.0),
    Peer("FedJAX", "fedjax_peer.py", "fedjax", floor=5.0),
    Peer("pfl-research", "pfl_peer.py", "pfl"),
    Peer("PyTorch loop by hand", "torch_loop.py", "torch"),
    Peer("FedLab", "fedlab_peer.py", "fedlab"),
    Peer("FLGo", "flgo_peer.py", "flgo"),
    Peer("Flower simulation", "flower_peer.py", "flower", floor=30.0),
)  # fmt: skip
