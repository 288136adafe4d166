"""Exact solver, convex QP and the paper's integer programme: time and distance from the optimum over K.

    python benchmarks/power.py            # prints the table; about five minutes
    python benchmarks/power.py --write    # also renews the table and the plot in docs/power.md

Times are processor seconds of one thread, best of several runs, so that other work on the machine has little effect.
The gap is `Solution.gap`, relative to a dual bound that no power vector exceeds, hence independent of any solver.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from paota.power import Problem, problem_from, solve_problem

DOCS = Path(__file__).resolve().parent.parent / "docs"
SIZES = (10, 30, 100, 300, 1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True, kw_only=True)
class Method:
    """A row of the comparison: the solver, its largest size, and its style in the plot."""

    title: str
    method: str
    options: dict[str, Any]
    largest: int
    colour: str


METHODS = (
    Method(title="exact", method="exact", options={}, largest=1_000_000, colour="#0b6e4f"),
    Method(title="QP, HiGHS", method="qp", options={"time_limit_s": 600.0}, largest=1_000, colour="#3a6ea5"),
    Method(
        title="QP, Clarabel",
        method="qp",
        options={"backend": "clarabel", "time_limit_s": 600.0},
        largest=100_000,
        colour="#7a9cc6",
    ),
    Method(
        title="MIP, 16 segments",
        method="mip",
        options={"segments": 16, "time_limit_s": 600.0},
        largest=1_000,
        colour="#d1793b",
    ),
    Method(
        title="MIP, 32 segments",
        method="mip",
        options={"segments": 32, "time_limit_s": 600.0},
        largest=300,
        colour="#a23b2a",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    seconds: float
    gap: float
    kkt_residual: float


def paper_round(devices: int, seed: int = 0) -> Problem:
    """Return a round in the paper's setting: 15 W, staleness 0 to 2, any similarity, -174 dBm/Hz over 20 MHz."""
    generator = np.random.default_rng(seed)
    return problem_from(
        p_max=np.full(devices, 15.0),
        staleness=generator.integers(0, 3, devices),
        similarity=generator.random(devices),
    )


def measure(method: Method, problem: Problem, *, at_least_s: float = 0.5, most_runs: int = 200) -> Measurement:
    """Return the best of all runs that fit into a short time, at least one."""
    best, spent, runs = math.inf, 0.0, 0
    while runs == 0 or (spent < at_least_s and runs < most_runs):
        begin = time.process_time()
        solution = solve_problem(problem, method=method.method, **method.options)
        seconds = time.process_time() - begin
        best, spent, runs = min(best, seconds), spent + seconds, runs + 1
    return Measurement(seconds=best, gap=solution.gap, kkt_residual=solution.kkt_residual)


def measure_all(sizes: tuple[int, ...]) -> dict[tuple[str, int], Measurement]:
    results = {}
    for size in sizes:
        problem = paper_round(size)
        for method in METHODS:
            if size <= method.largest:
                results[method.title, size] = found = measure(method, problem)
                print(
                    f"K = {size:>9,}  {method.title:<18} {shown_time(found.seconds):>9}  gap {found.gap:.1e}",
                    flush=True,
                )
    return results


def shown_time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def table(results: dict[tuple[str, int], Measurement]) -> str:
    """Return Markdown: a row for each size, with time and gap of each method."""
    sizes = sorted({size for _, size in results})
    lines = [
        "| K | " + " | ".join(method.title for method in METHODS) + " |",
        "|--:|" + "--:|" * len(METHODS),
    ]
    for size in sizes:
        cells = []
        for method in METHODS:
            found = results.get((method.title, size))
            cells.append(f"{shown_time(found.seconds)}, {shown_gap(found.gap)}" if found else "")
        lines.append(f"| {size:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shown_gap(gap: float) -> str:
    return "0" if gap < 1e-12 else f"{gap:.0e}"


def growth(results: dict[tuple[str, int], Measurement]) -> str:
    """Return the growth of the exact solver's time relative to K log K, from 10,000 devices on, where overheads are small."""
    sizes = sorted(size for title, size in results if title == "exact" and size >= 10_000)
    if len(sizes) < 2:
        return ""
    first, last = sizes[0], sizes[-1]
    grown = results["exact", last].seconds / results["exact", first].seconds
    allowed = last * math.log(last) / (first * math.log(first))
    longer = f"From K = {first:,} to {last:,} the exact solver needs {grown:.0f} times as long"
    return f"{longer}; K log K grows {allowed:.0f}-fold."


def plot(results: dict[tuple[str, int], Measurement], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "paota"  # the same picture gives the same file
    import matplotlib.pyplot as plt

    figure, (times, gaps) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for method in METHODS:
        sizes = [size for title, size in results if title == method.title]
        seconds = [results[method.title, size].seconds for size in sizes]
        distance = [max(results[method.title, size].gap, 1e-16) for size in sizes]
        style = {"color": method.colour, "marker": "o", "markersize": 4, "label": method.title}
        times.loglog(sizes, seconds, **style)
        gaps.loglog(sizes, distance, **style)
    times.set(title="processor time", xlabel="devices K", ylabel="seconds")
    gaps.set(
        title="distance from the optimum", xlabel="devices K", ylabel="relative gap (1e-16: none)", ylim=(5e-17, 1e-1)
    )
    for axes in (times, gaps):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    gaps.legend(frameon=False, loc="center right")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def write(results: dict[tuple[str, int], Measurement], page: Path) -> None:
    """Write the table between the two marks of the page."""
    begin, end = "<!-- benchmark: begin -->", "<!-- benchmark: end -->"
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{page} lacks the marks {begin} and {end}")
    body = f"{begin}\n{table(results)}\n\n{growth(results)}\n{end}"
    page.write_text(before + body + after, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="leave out larger K")
    parser.add_argument("--write", action="store_true", help="renew docs/power.md and docs/img/power-benchmark.svg")
    args = parser.parse_args()
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {os.cpu_count()} cores, {platform.machine()}\n")
    results = measure_all(tuple(size for size in SIZES if size <= args.largest))
    print("\n" + table(results) + "\n\n" + growth(results))
    if args.write:
        plot(results, DOCS / "img" / "power-benchmark.svg")
        write(results, DOCS / "power.md")


if __name__ == "__main__":
    main()
