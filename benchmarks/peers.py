"""Compare the time of one round with other frameworks on the same work.

    python benchmarks/peers/environments.py      # once: the peers' virtual environments
    python benchmarks/peers.py                   # measure, print, write docs/peers.md and docs/img/peers.svg

Every peer starts once and is warmed up. Then all peers compute one block of rounds after the other, in a random order for
each repetition. Ratios are computed within a repetition, so that a slow machine affects both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))

import models  # noqa: E402
from catalogue import OURS, PEERS, Peer  # noqa: E402
from environments import DEFAULT_FOLDER, python_of  # noqa: E402
from models_work import MODELS as NETWORKS  # noqa: E402
from protocol import LEARNT_AFTER  # noqa: E402
from write_up import machine, write_up  # noqa: E402

LEAST_ACCURACY = 0.7  # after LEARNT_AFTER rounds; a peer below it does not do the work
PATIENCE_S = 600


@dataclass
class Running:
    """The process of a peer, and its output so far."""

    peer: Peer
    variant: tuple[str, ...]
    process: subprocess.Popen[str]
    complaints: Any  # the file behind its standard error
    facts: dict[str, Any] = field(default_factory=dict)
    learnt: float | None = None
    ms: list[float] = field(default_factory=list)
    block: int = 10

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise EOFError(self.last_words())
        message: dict[str, Any] = json.loads(line)
        return message

    def run(self, rounds: int) -> float:
        """Return the milliseconds per round of one block."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{rounds}\n")
        self.process.stdin.flush()
        while "ms_per_round" not in (message := self.hear()):
            self.learnt = message.get("learnt", self.learnt)
        return float(message["ms_per_round"])

    def last_words(self) -> str:
        self.complaints.seek(0)
        lines = [line.strip() for line in self.complaints.read().splitlines() if line.strip()]
        return lines[-1][:200] if lines else "it ended without a word"

    def stop(self) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
            self.process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


def start(peer: Peer, variant: tuple[str, ...], data: Path, folder: Path) -> Running:
    python = Path(sys.executable) if peer.environment is None else python_of(folder / peer.environment)
    if not python.exists():
        raise EOFError(f"its environment is missing: python benchmarks/peers/environments.py {peer.environment}")
    environment = dict(os.environ)
    environment.pop("PYTHONPATH", None)
    if peer.environment is None:
        environment["PYTHONPATH"] = str(HERE.parent / "src")
    complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115  it lives as long as the process
    process = subprocess.Popen(
        [str(python), peer.script, str(data), *variant],
        cwd=HERE / "peers", env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=complaints, text=True,
    )  # fmt: skip
    running = Running(peer, variant, process, complaints)
    running.facts = running.hear()
    return running


def warmed_up(peer: Peer, data: Path, folder: Path, block_s: float) -> Running:
    """Return the fastest variant of a peer after enough rounds to show that it learns."""
    best: Running | None = None
    problem = ""
    for variant in peer.variants:
        try:
            running = start(peer, variant, data, folder)
            running.run(2)  # compiles
            ms = running.run(3)
            if best is None or ms < 3 * best.facts["ms"]:  # otherwise it is dropped; it may be very slow
                ms = min(running.run(10) for _ in range(2))
        except (EOFError, BrokenPipeError) as error:
            problem = str(error)
            continue
        running.block = max(10, min(200, round(block_s * 1e3 / ms / 10) * 10))
        running.facts["ms"] = ms
        slower: Running | None = running
        if best is None or ms < best.facts["ms"]:
            slower, best = best, running
        if slower is not None:
            slower.stop()
    if best is None:
        raise EOFError(problem)
    best.run(LEARNT_AFTER)
    if best.learnt is None or best.learnt < LEAST_ACCURACY:
        best.stop()
        raise EOFError(f"it does not learn: accuracy {best.learnt} after {LEARNT_AFTER} rounds")
    return best


def measure(crew: list[Running], repetitions: int) -> None:
    order = random.Random(0)
    for repetition in range(repetitions):
        for running in order.sample(crew, len(crew)):
            running.ms.append(running.run(running.block))
        ours = next(running for running in crew if running.peer.name == OURS)
        others = ", ".join(f"{r.peer.name} {r.ms[-1] / ours.ms[-1]:.1f}" for r in crew if r is not ours)
        print(f"repetition {repetition + 1} of {repetitions}: {others}", file=sys.stderr, flush=True)


def results(crew: list[Running]) -> list[dict[str, Any]]:
    """Return one row per peer: its time relative to ours over the repetitions."""
    ours = next(running for running in crew if running.peer.name == OURS)
    rows = []
    for running in crew:
        ratios = sorted(theirs / mine for theirs, mine in zip(running.ms, ours.ms, strict=True))
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        rows.append(
            {
                "name": running.peer.name,
                "ratio": middle, "low": low, "high": high, "least": ratios[0], "most": ratios[-1],
                "ms": statistics.median(running.ms),
                "accuracy": running.learnt,
                "floor": running.peer.floor,
                "versions": running.facts["versions"],
                "settings": running.facts["settings"],
                "rounds": running.block * len(running.ms),
            }
        )  # fmt: skip
    return sorted(rows, key=lambda row: row["ratio"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, default=DEFAULT_FOLDER, help=f"the environments (default: {DEFAULT_FOLDER})"
    )
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--block-s", type=float, default=1.0, help="seconds that one block should take, roughly")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="some peers only, by a part of their names")
    parser.add_argument("--docs", type=Path, default=HERE.parent / "docs", help="where peers.md and img/ are written")
    parser.add_argument("--no-docs", action="store_true", help="print only")
    parser.add_argument("--check", action="store_true", help="end with code 1 if a ratio is below its floor")
    parser.add_argument(
        "--networks", nargs="*", choices=[*NETWORKS], default=[*NETWORKS], help="those of the second table"
    )
    args = parser.parse_args()

    wanted = [
        p for p in PEERS if not args.only or p.name == OURS or any(n.lower() in p.name.lower() for n in args.only)
    ]
    load_before = os.getloadavg()[0]
    crew: list[Running] = []
    absent: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary) / "work.npz"
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
        subprocess.run([sys.executable, str(HERE / "peers" / "workload.py"), str(data)], env=environment, check=True)
        try:
            for peer in wanted:
                try:
                    crew.append(warmed_up(peer, data, args.folder, args.block_s))
                    print(f"{peer.name}: ready {crew[-1].facts['settings']}", file=sys.stderr, flush=True)
                except (EOFError, BrokenPipeError) as error:
                    absent[peer.name] = str(error)
                    print(f"{peer.name}: {error}", file=sys.stderr, flush=True)
            if OURS in absent:
                return 2
            measure(crew, args.repetitions)
        finally:
            for running in crew:
                running.stop()
    rows = results(crew)
    facts = machine(load_before, os.getloadavg()[0], args.repetitions)
    networks = [
        row for name in args.networks for row in models.measured(name, args.folder, args.repetitions // 3 or 1, "")
    ]
    text = write_up(rows, absent, facts, LEARNT_AFTER, models.table(networks), None if args.no_docs else args.docs)
    print(text)
    below = [row["name"] for row in rows if row["floor"] and row["ratio"] < row["floor"]]
    if below:
        print(f"below its floor: {', '.join(below)}", file=sys.stderr)
    return int(args.check and bool(below))


if __name__ == "__main__":
    sys.exit(main())
