"""The explanatory pictures of docs/power.md.

python benchmarks/power_pictures.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "paota"  # the same picture gives the same file

import matplotlib.pyplot as plt  # noqa: E402

from paota.power import problem_from, solve_problem  # noqa: E402

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "img"
BOX, LEVEL, POINT = "#c9d6df", "#d1793b", "#0b6e4f"


def round_of_ten(noise_power_w: float) -> Any:
    """Return ten devices in the paper's setting: staleness 0 to 2 and any similarity."""
    return problem_from(
        p_max=15.0,
        staleness=[0, 0, 0, 1, 1, 1, 1, 2, 2, 2],
        similarity=[0.15, 0.45, 0.9, 0.2, 0.35, 0.7, 0.95, 0.1, 0.5, 0.85],
        noise_power_w=noise_power_w,
    )


def psi(problem: Any, levels: Any) -> Any:
    lo, hi = problem.lo[:, None], problem.hi[:, None]
    return (hi * np.maximum(levels - hi, 0) - lo * np.maximum(lo - levels, 0)).sum(0) - problem.c


def clip_picture(path: Path) -> None:
    """Draw boxes, level and powers on the left, and psi on the right; the level is its root."""
    problem = round_of_ten(1e-3)
    solution = solve_problem(problem)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    device = np.arange(problem.hi.size)
    left.bar(device, problem.hi - problem.lo, bottom=problem.lo, width=0.6, color=BOX, label="box [lo, hi]")
    left.axhline(solution.level, color=LEVEL, label=f"level tau = {solution.level:.2f}")
    left.plot(device, solution.power, "o", color=POINT, label="power clip(tau, lo, hi)")
    left.set(xlabel="device", ylabel="power", xticks=device, ylim=(0, 19.5), title="one level for all")
    left.legend(frameon=False, ncols=3, loc="upper center", fontsize=8, columnspacing=1.0, handletextpad=0.4)
    levels = np.linspace(7.0, 15.0, 400)
    right.plot(levels, psi(problem, levels), color=POINT)
    bounds = np.r_[problem.lo, problem.hi]
    bounds = bounds[(bounds >= 7.0) & (bounds <= 15.0)]
    right.plot(bounds, psi(problem, bounds), ".", color=POINT)
    right.axhline(0, color="0.6", linewidth=0.8)
    right.axvline(solution.level, color=LEVEL)
    right.set(xlabel="tau", ylabel="psi(tau)", title="the level is the root of a piecewise-linear function")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def noise_picture(path: Path) -> None:
    """Draw the powers of the ten devices with growing noise, until all transmit at full power."""
    noises = np.logspace(-6, 0, 300)
    problems = [round_of_ten(float(noise)) for noise in noises]
    powers = np.array([solve_problem(problem).power for problem in problems])
    c = np.array([problem.c for problem in problems])
    enough = float((problems[0].hi * (problems[0].hi.max() - problems[0].hi)).sum())
    figure, axes = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
    axes.semilogx(c, powers, color=POINT, alpha=0.55, linewidth=1.2)
    axes.axvline(enough, color=LEVEL)
    axes.text(
        enough * 0.85, 9.4, "c = sum hi (max hi - hi):\nfull power from here on", color=LEVEL, ha="right", va="bottom"
    )
    axes.set(xlabel="c = c2/c1 (noise against divergence)", ylabel="power of each device", ylim=(7, 15.5))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    clip_picture(IMAGES / "power-level.svg")
    noise_picture(IMAGES / "power-noise.svg")
