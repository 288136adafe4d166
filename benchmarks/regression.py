"""Check that the engine did not become slower: `python benchmarks/regression.py` exits with 1 if it did, by a wide margin.

It compares the engine with a plain JAX vmap by ratios only. Both alternate in one process, so a slow or busy machine affects
both. The median ratio must stay above a limit far below that of a quiet machine, either by wall time or by processor time: a
busy machine distorts the former, waiting threads the latter.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import workload

FLOORS = {"fused kernel": 2.5, "generic": 0.4}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    call, ready, learner = workload.ours("local-sgd")
    times = workload.interleaved({"ours": call, "plain JAX vmap": workload.plain_jax()}, args.repeats)
    floor = FLOORS["fused kernel" if learner == "fused kernel" else "generic"]
    ratios = times["plain JAX vmap"] / times["ours"]  # [repeats, 2]
    for name, column in (("processor time", 0), ("wall time", 1)):
        low, median, high = np.quantile(ratios[:, column], [0.1, 0.5, 0.9])
        print(f"plain JAX vmap / ours ({learner}, {ready:.0f} a round), {name}: {median:.1f} ({low:.1f} to {high:.1f})")
    if np.median(ratios[:, 0]) < floor and np.median(ratios[:, 1]) < floor:
        print(f"below the floor of {floor}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
