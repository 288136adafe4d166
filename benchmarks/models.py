"""Compare the time of one round of every network with PyTorch.

    python benchmarks/peers/environments.py torch      # once
    python benchmarks/models.py [MODEL ...]

In a round, 20 devices train 5 steps of batch 32 each, and the average is evaluated on 10,000 images. PyTorch uses the best of
1 and 2 threads, both memory formats, and a compiled `torch.func.vmap`; the MLP is also compared with a plain JAX vmap. All
variants are warmed up, then alternate. Ratios are computed within a repetition, from wall time and from processor time,
which is more reliable on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PEERS = Path(__file__).resolve().parent / "peers"
sys.path.insert(0, str(PEERS))

from environments import DEFAULT_FOLDER, python_of  # type: ignore[import-not-found]  # noqa: E402
from models_work import MODELS  # type: ignore[import-not-found]  # noqa: E402

LOOPS = [(threads, layout, "loop") for layout in ("channels_last", "contiguous") for threads in ("1", "2")]
HOPELESS = 2  # a variant that is slower by this factor is dropped
SIDE_BY_SIDE = [(threads, "contiguous", "vmap") for threads in ("1", "2")]


@dataclass
class AlgorithmConfig:
    """A process that computes rounds on request."""

    name: str
    process: subprocess.Popen[str]
    wall_ms: list[float] = field(default_factory=list)
    processor_ms: list[float] = field(default_factory=list)

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise EOFError(self.name)
        message: dict[str, Any] = json.loads(line)
        return message

    def run(self, rounds: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{rounds}\n")
        self.process.stdin.flush()
        while "ms_per_round" not in (message := self.hear()):
            pass
        self.wall_ms.append(message["ms_per_round"])
        self.processor_ms.append(message["processor_ms_per_round"])

    def forget(self) -> None:
        self.wall_ms.clear()
        self.processor_ms.clear()

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def started(name: str, python: Path, script: str, *arguments: str) -> AlgorithmConfig | None:
    """Return a variant that has computed a round, or None if it cannot."""
    environment = {**os.environ, "PYTHONPATH": str(PEERS.parents[1] / "src") if "ours" in script else ""}
    process = subprocess.Popen(
        [str(python), script, *arguments],
        cwd=PEERS, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    entry = AlgorithmConfig(name, process)
    try:
        entry.hear()
        entry.run(1)  # compiles
    except (EOFError, BrokenPipeError):
        return None
    entry.forget()
    return entry


def algorithms(model: str, folder: Path, only: str) -> list[AlgorithmConfig]:
    torch, here = python_of(folder / "torch"), Path(sys.executable)
    variants = [v for v in (LOOPS[2:] if model == "mlp" else LOOPS) + SIDE_BY_SIDE if only in " ".join(v)]
    found = [started("ours", here, "models_ours.py", model, "ours")]
    if model == "mlp":
        found.append(started("JAX vmap", here, "models_ours.py", model, "vmap"))
    rivals: list[AlgorithmConfig] = []
    for variant in variants:
        rival = started(f"PyTorch {' '.join(variant)}", torch, "models_torch.py", model, *variant)
        if rival is None:
            continue
        rival.run(1)
        if rivals and rival.wall_ms[0] > HOPELESS * min(r.wall_ms[0] for r in rivals):
            rival.stop()
        else:
            rivals.append(rival)
    for rival in rivals:
        rival.forget()
    return [entry for entry in (*found, *rivals) if entry is not None]


def measured(model: str, folder: Path, repetitions: int, only: str) -> list[dict[str, Any]]:
    crew = algorithms(model, folder, only)
    for _ in range(repetitions):
        for entry in crew:
            entry.run(1)
        print(
            f"{model}: " + ", ".join(f"{c.name} {c.wall_ms[-1]:.0f} ({c.processor_ms[-1]:.0f})" for c in crew),
            file=sys.stderr,
            flush=True,
        )
    for entry in crew:
        entry.stop()
    ours = crew[0]

    def ratio(theirs: list[float], mine: list[float]) -> float:
        return statistics.median(a / b for a, b in zip(theirs, mine, strict=True))

    return [
        {
            "model": model, "who": c.name, "wall_ms": min(c.wall_ms), "processor_ms": min(c.processor_ms),
            "wall_ratio": ratio(c.wall_ms, ours.wall_ms), "processor_ratio": ratio(c.processor_ms, ours.processor_ms),
        }
        for c in crew
    ]  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| model | who | ms, least | processor ms, least | wall / ours | processor / ours |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for row in rows:
        lines.append(
            f"| {row['model']} | {row['who']} | {row['wall_ms']:.0f} | {row['processor_ms']:.0f} "
            f"| {row['wall_ratio']:.2f} | {row['processor_ratio']:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[[], *MODELS])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="of the peers' environments")
    parser.add_argument("--only", default="", help="variants of PyTorch with this in their names, such as 'loop'")
    parser.add_argument("--json", type=Path, help="write the rows there, too")
    args = parser.parse_args()
    rows = [row for model in args.models or MODELS for row in measured(model, args.folder, args.repetitions, args.only)]
    print(table(rows))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
