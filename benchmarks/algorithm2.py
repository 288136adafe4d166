"""Compare Algorithm 2, printed and corrected, with the exact optimum: mean gap over random instances, as a Markdown table.

python benchmarks/algorithm2.py --devices 12 --instances 12
python benchmarks/algorithm2.py --paper --instances 3 --segments 16
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from paota.power import solve

VARIANTS: dict[str, dict[str, Any]] = {
    "as printed": {"coordinates": "eigen", "stopping": "printed"},
    "printed coordinates, mended stopping": {"coordinates": "eigen", "stopping": "mended"},
    "mended coordinates, printed stopping": {"coordinates": "sum", "stopping": "printed"},
    "mended (the default)": {"coordinates": "sum", "stopping": "mended"},
}
SEGMENTS = (4, 8, 16, 32)


def instance(seed: int, devices: int) -> dict[str, Any]:
    """Return a round with staleness 0 to 2, any similarity and visible noise."""
    rng = np.random.default_rng(seed)
    return {"staleness": rng.integers(0, 3, devices), "similarity": rng.random(devices), "noise_power_w": 1e-3}


def papers_instance(seed: int, similarity: tuple[float, float]) -> dict[str, Any]:
    """Return a round in the paper's setting: 59 of 100 devices ready, 30 % of them fresh, the others one version old."""
    rng = np.random.default_rng(seed)
    stale, similar = (rng.random(59) > 0.3).astype(int), rng.uniform(*similarity, 59)
    return {"staleness": stale, "similarity": similar, "num_devices": 100}


def mean_gap(instances: list[dict[str, Any]], segments: int, options: Mapping[str, Any]) -> float:
    """Mean of objective/optimum - 1."""
    common: dict[str, Any] = {
        "p_max": 15.0,
        "method": "mip",
        "segments": segments,
        "tolerance": 1e-9,
        "time_limit_s": math.inf,
    }
    return float(np.mean([solve(**common, **one, **options).gap for one in instances]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=12)
    parser.add_argument("--instances", type=int, default=12)
    parser.add_argument("--segments", type=int, nargs="+", default=SEGMENTS)
    parser.add_argument("--paper", action="store_true", help="rounds as the paper's, in place of --devices")
    parser.add_argument("--similarity", type=float, nargs=2, default=(0.0, 1.0), help="its range, with --paper")
    args = parser.parse_args()
    made = [
        papers_instance(seed, args.similarity) if args.paper else instance(seed, args.devices)
        for seed in range(args.instances)
    ]
    print(f"| segments | {' | '.join(map(str, args.segments))} |")
    print(f"|---|{'--:|' * len(args.segments)}")
    for name, options in VARIANTS.items():
        cells = (f"{mean_gap(made, m, options):.1e}" for m in args.segments)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
