"""Kill commands at random moments, resume them, and compare their files with those of uninterrupted runs.

    python benchmarks/crash.py --kills 200                  # of run, sweep, reproduce, plan and deploy in turn
    python benchmarks/crash.py --kills 10 --only sweep

The signal (SIGKILL, SIGTERM or SIGINT) goes to the command alone, as from a scheduler. Afterwards none of its processes may
remain, its output may contain no traceback, and its exit code must be that of the signal or its own code for it. A finished
folder may contain no incomplete file. A deployment runs in real time, so only its end is checked. This needs Linux: a
variable in the environment identifies the processes in /proc.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MARK = "PAOTA_CRASH"
LEFT_S = 15.0  # limit for the end of a killed command's processes
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
PYTHON_S = 0.3  # Python's start-up, when Ctrl-C is not ours to handle
EXPERIMENT = """
rounds = {rounds}
data = {{dataset = "synthetic", devices = 6, sizes = [20, 30]}}
model = {{name = "softmax"}}
training = {{local_steps = 2, batch_size = 8}}
timing = {{period_s = 6.0}}
algorithms = [{{name = "paota"}}, {{name = "local-sgd"}}]
"""
DEPLOYED = """
rounds = 4
data = {dataset = "synthetic", devices = 2, sizes = [20]}
model = {name = "softmax"}
training = {local_steps = 1, batch_size = 8}
timing = {period_s = 2.0, latency = "uniform", low_s = 0.5, high_s = 1.0}
algorithms = [{name = "paota"}]
"""


@dataclass(frozen=True)
class Kind:
    """A command that can be resumed: its first and its resuming arguments, and the files that must be equal."""

    begin: Callable[[Path], list[str]]
    go_on: Callable[[Path], list[str]]
    begun: Callable[[Path], bool]
    results: tuple[str, ...] = ()  # patterns

    def files(self, out: Path) -> dict[str, bytes]:
        """Return the result files in the folder `out`."""
        return {str(file.relative_to(out)): file.read_bytes() for pattern in self.results for file in out.glob(pattern)}


def kinds(work: Path, rounds: int) -> dict[str, Kind]:
    (work / "small.toml").write_text(EXPERIMENT.format(rounds=rounds))
    (work / "deployed.toml").write_text(DEPLOYED)
    small, deployed = str(work / "small.toml"), str(work / "deployed.toml")
    tables = ("metrics.csv", "*.npz")
    often = ["--quiet", "--checkpoint-every", "0.1"]
    together = ["--quiet", "--jobs", "2"]
    over = ["--over", "timing.period_s=4,6,8"]
    reproduce = ["reproduce", "--quick", "--seeds", "1", "--part", "paper", "--workers", "2", "--quiet"]
    planned = ["--algorithms", "paota", "--target", "0.3", "--seeds", "2"]
    return {
        "run": Kind(
            lambda out: ["run", small, "--seeds", "2", "--out", str(out), *often],
            lambda out: ["run", "--resume", str(out), *often],
            lambda out: (out / "unfinished.json").exists() or (out / "run.json").exists(),
            tables,
        ),
        "sweep": Kind(
            lambda out: ["sweep", small, *over, "--equal", "rounds", "--out", str(out), *together],
            lambda out: ["sweep", "--resume", str(out), *together],
            lambda out: (out / "sweep.json").exists(),
            ("sweep.csv", *(f"points/*/{table}" for table in tables)),
        ),
        "reproduce": Kind(
            lambda out: [*reproduce, "--out", str(out)],
            lambda out: [*reproduce, "--out", str(out)],
            lambda out: True,
            ("evidence.npz", "tables/*.csv", *(f"cells/*/{table}" for table in tables)),
        ),
        "plan": Kind(
            lambda out: ["plan", small, *over, *planned, "--out", str(out), *together],
            lambda out: ["plan", "--resume", str(out), *together],
            lambda out: (out / "plan.json").exists(),
            ("plan.csv", "experiment.toml", *(f"runs/*/{table}" for table in tables)),
        ),
        "deploy": Kind(
            lambda out: ["deploy", deployed, "--out", str(out)],
            lambda out: ["deploy", "--resume", str(out)],
            lambda out: any(out.glob("checkpoint-*/state.npz")),
        ),
    }


class Victim:
    """Commands of one kind in separate folders, each killed repeatedly until it finishes."""

    def __init__(self, name: str, kind: Kind, work: Path, rng: random.Random) -> None:
        self.name, self.kind, self.work, self.rng = name, kind, work, rng
        self.kills: Counter[str] = Counter()
        self.finished = self.compared = 0
        whole = work / f"{name}-whole"
        self._call(kind.begin(whole))  # compiles
        self.expected = kind.files(whole)
        shutil.rmtree(whole)
        begin = time.monotonic()
        self._call(kind.begin(whole))
        self.lasts_s = time.monotonic() - begin
        self.out = whole
        self._compare()
        self.finished = self.compared = 0

    def kill_once(self) -> None:
        """Run for a while, send a signal and check. After a finished folder, continue with the next one."""
        going_on = self.kind.begun(self.out)
        if not going_on:
            shutil.rmtree(self.out, ignore_errors=True)
        process, mark, log = self._start((self.kind.go_on if going_on else self.kind.begin)(self.out))
        codes = {0}
        try:
            process.wait(self.rng.uniform(PYTHON_S, self.lasts_s))
        except subprocess.TimeoutExpired:
            how = self.rng.choice(SIGNALS)
            process.send_signal(how)
            process.wait(60)
            self.kills[how.name] += 1
            codes |= {-how, 128 + how}
        self._look_around(mark, log)
        if process.returncode not in codes:
            raise SystemExit(f"{self.name}: exit code {process.returncode}: {log.read_text()[-1000:]}")
        if process.returncode == 0:
            self._compare()

    def finish(self) -> None:
        """Run once more to the end, without a signal."""
        going_on = self.kind.begun(self.out)
        if not going_on:
            shutil.rmtree(self.out, ignore_errors=True)
        self._call((self.kind.go_on if going_on else self.kind.begin)(self.out))
        self._compare()

    def _compare(self) -> None:
        found = self.kind.files(self.out)
        if found != self.expected:
            differ = [name for name in {**found, **self.expected} if found.get(name) != self.expected.get(name)]
            raise SystemExit(f"{self.name}: {', '.join(differ)} in {self.out} differ from the undisturbed run's")
        if left := [str(file) for file in self.out.rglob(".*.part")]:
            raise SystemExit(f"{self.name}: half-written files were left: {', '.join(left)}")
        self.finished, self.compared = self.finished + 1, self.compared + len(found)
        shutil.rmtree(self.out)
        self.out = self._new_folder()

    def _call(self, words: list[str]) -> None:
        process, mark, log = self._start(words)
        if process.wait(1800) != 0:
            raise SystemExit(f"{self.name}: exit code {process.returncode}: {log.read_text()[-1000:]}")
        self._look_around(mark, log)

    def _start(self, words: list[str]) -> tuple[subprocess.Popen[bytes], str, Path]:
        mark, log = uuid.uuid4().hex, self.work / f"{self.name}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "paota", *words], env={**os.environ, MARK: mark}, stdin=subprocess.DEVNULL,
                stdout=stream, stderr=subprocess.STDOUT, start_new_session=True, cwd=self.work,
            )  # fmt: skip
        return process, mark, log

    def _look_around(self, mark: str, log: Path) -> None:
        latest = time.monotonic() + LEFT_S
        while (left := marked(mark)) and time.monotonic() < latest:
            time.sleep(0.1)
        if left:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise SystemExit(f"{self.name}: {len(left)} processes were left behind: {left}; {log.read_text()[-500:]}")
        if "Traceback" in (text := log.read_text(errors="replace")):
            raise SystemExit(f"{self.name}: a traceback: {text[-3000:]}")

    def _new_folder(self) -> Path:
        return self.work / f"{self.name}-{self.finished}"


def marked(mark: str) -> list[int]:
    """Return the running processes with this mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            ours = entry.name.isdigit() and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes()
            if ours and (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                found.append(int(entry.name))
        except (OSError, IndexError):  # it has just ended
            continue
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="of each kind an equal share")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments and signals")
    parser.add_argument("--only", choices=("run", "sweep", "reproduce", "plan", "deploy"), action="append")
    parser.add_argument("--rounds", type=int, default=1000, help="of the experiment that run, sweep and plan compute")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="paota-crash-") as folder:
        chosen = {k: v for k, v in kinds(Path(folder), args.rounds).items() if not args.only or k in args.only}
        for name, kind in chosen.items():
            victim = Victim(name, kind, Path(folder), rng)
            while victim.kills.total() < args.kills // len(chosen):
                victim.kill_once()
                print(f"\r{name}: {victim.kills.total()} kills, {victim.finished} finished", end="", flush=True)
            victim.finish()
            kinds_of = ", ".join(f"{count} {how}" for how, count in sorted(victim.kills.items()))
            print(
                f"\r{name}: {victim.kills.total()} kills ({kinds_of}), {victim.finished} finished all the same, "
                f"{victim.compared} files byte-equal, no process left, no traceback"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
