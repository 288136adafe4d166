"""The gain of the weakest device with several receive antennas: the median of min_k |m^H h_k|^2 for each combiner.

    python benchmarks/antennas.py [--draws 100] [--out docs/air.md]

Writes the table between its markers in the given file, or prints it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from paota.air.combining import COMBINERS, combining_vector
from paota.base.files import write_text

DEVICES = (20, 59)
ANTENNAS = (1, 4, 16, 64)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--out", type=Path, help="the Markdown file whose table is replaced")
    args = parser.parse_args()
    table = "\n".join(lines(args.draws))
    if args.out is None:
        print(table)
        return 0
    first, last = "<!-- antennas: begin -->", "<!-- antennas: end -->"
    before, _, rest = args.out.read_text(encoding="utf-8").partition(first)
    write_text(args.out, f"{before}{first}\n{table}\n{last}{rest.partition(last)[2]}")
    return 0


def lines(draws: int) -> list[str]:
    """Yield the rows of the table."""
    head = ["| devices | antennas | " + " | ".join(f"`{kind}`" for kind in COMBINERS) + " |", "|--:|--:|--:|--:|--:|"]
    for devices in DEVICES:
        for antennas in ANTENNAS:
            cells = " | ".join(f"{least_gain(kind, devices, antennas, draws):.2g}" for kind in COMBINERS)
            head.append(f"| {devices} | {antennas} | {cells} |")
    return head


def least_gain(kind: str, devices: int, antennas: int, draws: int) -> float:
    """Return the median over `draws` of the weakest gain of `devices` with independent Rayleigh channels, no noise."""

    def one(key: jax.Array) -> jax.Array:
        parts = jax.random.normal(key, (2, devices, antennas)) * jnp.sqrt(0.5)
        h = jax.lax.complex(parts[0], parts[1])
        m = combining_vector(kind, h, jnp.ones(devices, bool))
        return jnp.min(jnp.abs(h @ jnp.conj(m)) ** 2)

    keys = jax.random.split(jax.random.key(0), draws)
    return float(np.median(jax.jit(jax.vmap(one))(keys)))


if __name__ == "__main__":
    sys.exit(main())
