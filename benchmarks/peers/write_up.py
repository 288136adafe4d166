"""The measurement as a table for people and a picture, with the machine it was made on."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

INTRODUCTION = """# The same work, by others

How many times as long as ours does a round take elsewhere? Measured by `benchmarks/peers.py`, which wrote this page.

**The work.** 100 devices, MNIST dealt out as in the paper, an MLP 784-10-10-10; in every round 59 devices make M = 5
steps of mini-batch SGD (batch 32, learning rate 0.1), the server averages, and the new model is judged on all 10,000
test images.

**Ours does more.** `paota` is the paper's algorithm: 59 devices an event on average, staleness, fading, noise and the
optimal transmission powers of every event. The line without air does exactly what the peers do.

**Fair play.** Every peer has its own virtual environment and favourable settings: data in memory as float32, no data
loaders, no logging; pfl-research and Flower with one process a core. For `torch.func.vmap` the number of threads and what
is compiled are tried at start, and the fastest is kept; elsewhere the settings are our judgement. FedJAX runs on its
default backend and on an older JAX, because it calls functions that newer ones have dropped; its `pmap` backend did not
run here. Flower and FLGo draw their own 59 devices, the others follow one list. Each must learn, or it is left out.
All are started once and warmed up (compiling is not counted); then they compute in turn, one block of rounds each, in
an order drawn anew for every repetition. A ratio is taken within a repetition; the table shows the median, the middle
half and the range.
"""

NETWORKS = """## Other networks

Every network of the zoo beside the same network in PyTorch: 20 devices train 5 steps of batch 32, the average is judged on
10,000 images; images are floats of 28x28x1, those of `cnn-colour` and the ResNets 32x32x3. PyTorch is given 1 and 2
threads, both memory formats and a compiled `torch.func.vmap`; what takes more than twice as long as the best is left out. The
MLP (784-200-200-10) also meets a plain JAX vmap. Ratios above 1 say how many times as long the other takes.
`python benchmarks/models.py` measures this table alone.
"""

HOW = """## Measure it yourself

```sh
python benchmarks/peers/environments.py    # the peers' environments, below ~/.cache/paota/peers (--folder DIR)
python benchmarks/peers.py                 # some minutes; --only fedjax vmap, --repetitions 5, --no-docs
```

pip decides which PyTorch is installed: tell it (by its own settings) where builds without CUDA are, or it fetches
gigabytes. A peer that cannot be installed or started is reported and left out. `--check` ends with code 1 when a ratio
is below its floor.

Each peer is one small script in `benchmarks/peers/`; they share the workload and a protocol of JSON lines
(`protocol.py`), and nothing else. FedLab and FLGo import torchvision at start for data sets that are not used here;
`no_torchvision.py` stands in for it, because its usual builds refuse a PyTorch without CUDA.
"""


def machine(load_before: float, load_after: float, repetitions: int) -> dict[str, str]:
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "repetitions": str(repetitions),
        "load average": f"{load_before:.1f} before, {load_after:.1f} after" + _warning(load_before),
    }


def _warning(load_before: float) -> str:
    if load_before < 0.5:
        return ""
    return (
        ". **Other work was running**, from which programs with several threads or processes suffer most, ours, "
        "`torch.func.vmap`, pfl-research and Flower among them: measure again on an idle machine before relying on a ratio"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def write_up(
    rows: Sequence[Mapping[str, Any]],
    absent: Mapping[str, str],
    facts: Mapping[str, str],
    after: int,
    networks: str,
    docs: Path | None,
) -> str:
    """The tables as Markdown, `networks` being the second one; with `docs` also the whole page and its picture."""
    lines = [
        f"| | a round takes, ours = 1 | middle half | range | accuracy after {after} rounds | versions | settings |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    for row in rows:
        versions = ", ".join(f"{name} {number}" for name, number in row["versions"].items())
        settings = ", ".join(f"{name} {value}" for name, value in row["settings"].items())
        lines.append(
            f"| {row['name']} | **{row['ratio']:.3g}** | {row['low']:.3g} to {row['high']:.3g} "
            f"| {row['least']:.3g} to {row['most']:.3g} | {row['accuracy']:.1%} | {versions} | {settings} |"
        )
    lines += [f"| {name} | not measured: {why} | | | | | |" for name, why in absent.items()]
    table = "\n".join(lines)
    about = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    if docs is not None:
        (docs / "img").mkdir(parents=True, exist_ok=True)
        picture(rows, docs / "img" / "peers.svg")
        image = "![A round of each peer, ours = 1, logarithmic axis](img/peers.svg)"
        page = f"{INTRODUCTION}\n## Result\n\n{image}\n\n{table}\n\nThe machine:\n\n{about}\n\n{NETWORKS}\n{networks}\n\n{HOW}"
        (docs / "peers.md").write_text(page, encoding="utf-8")
    return f"{table}\n\n{about}\n\n{networks}"


def picture(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "paota"  # the same picture from the same numbers
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 0.42 * len(rows) + 1.1), layout="constrained")
    for place, row in enumerate(reversed(rows)):
        mine = row["name"].startswith("paota")
        axes.barh(place, row["ratio"], color="#0072b2" if mine else "#9aa4b1", height=0.68)
        axes.plot([row["least"], row["most"]], [place, place], color="#1a1f27", linewidth=1.2)
        axes.text(max(row["most"], row["ratio"]) * 1.08, place, f"{row['ratio']:.3g}", va="center", fontsize=10)
    axes.set_yticks(range(len(rows)), [row["name"] for row in reversed(rows)])
    axes.set_xscale("log")
    axes.set_xlim(0.5, max(row["most"] for row in rows) * 2)
    axes.set_xticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    axes.minorticks_off()
    axes.set_xlabel("time of a round, paota = 1 (bars: median, lines: range over the repetitions)")
    axes.grid(axis="x", color="#e8ebef")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)
