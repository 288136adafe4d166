"""Algorithm 2, printed and mended, beside the exact optimum: the mean gap over random instances, as a Markdown table.

python benchmarks/algorithm2.py --devices 12 --instances 12
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


def mean_gap(devices: int, instances: int, segments: int, options: Mapping[str, Any]) -> float:
    """Mean of objective/optimum - 1 over instances with staleness 0 to 2 and any similarity."""
    gaps = []
    for seed in range(instances):
        rng = np.random.default_rng(seed)
        found = solve(
            p_max=15.0, staleness=rng.integers(0, 3, devices), similarity=rng.random(devices), noise_power_w=1e-3,
            method="mip", segments=segments, tolerance=1e-9, time_limit_s=math.inf, **options,
        )  # fmt: skip
        gaps.append(found.gap)
    return float(np.mean(gaps))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=12)
    parser.add_argument("--instances", type=int, default=12)
    args = parser.parse_args()
    print(f"| segments | {' | '.join(map(str, SEGMENTS))} |")
    print(f"|---|{'--:|' * len(SEGMENTS)}")
    for name, options in VARIANTS.items():
        cells = (f"{mean_gap(args.devices, args.instances, m, options):.1e}" for m in SEGMENTS)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
