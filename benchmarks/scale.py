"""Measure time and peak memory against the number of devices: `python benchmarks/scale.py [--devices 1000 10000 ...]`.

Every size runs in a separate process, so that its peak memory is measured alone. The work is PAOTA on MNIST with small
shards (20 to 40 samples per device; otherwise defaults), evaluated once at the end. "A device-step" is one SGD step of one
device. The table goes to standard output; --out also writes a JSON file and a plot.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def measure(devices: int, events: int, steps: int, batch: int, model: dict[str, Any]) -> dict[str, Any]:
    begin = time.perf_counter()
    from paota import Callback, simulate
    from paota.experiment.experiment import Experiment

    class Clock(Callback):
        """Note the processor time of all threads at the end of compilation; it is reliable on a busy machine."""

        compiled_at = 0.0

        def compile(self, label: str, seconds: float | None) -> None:
            self.compiled_at = time.process_time()

    experiment = Experiment.from_dict(
        {
            "rounds": events,
            "data": {"devices": devices, "sizes": [20, 40]},
            "training": {"local_steps": steps, "batch_size": batch},
            "model": model,
            "evaluation": {"every": events, "train_loss": "batches"},
            "algorithms": [{"name": "paota"}],
        }
    )
    plan = simulate.prepare(experiment)
    planned = time.perf_counter()
    clock = Clock()
    result = simulate.execute(plan, events_per_call=events, callbacks=[clock])
    cpu_s = time.process_time() - clock.compiled_at
    (trajectory,) = result.trajectories
    device_steps = int(trajectory.metrics["ready"].sum()) * steps
    return {
        "devices": devices,
        "events": events,
        "device_steps": device_steps,
        "plan_s": planned - begin,
        "compute_s": trajectory.compute_s,
        "cpu_s": cpu_s,
        "us_per_device_step": 1e6 * trajectory.compute_s / device_steps,
        "cpu_us_per_device_step": 1e6 * cpu_s / device_steps,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "learner": result.info["learner"],
        "parameters": trajectory.model.size,
        "test_accuracy": float(trajectory.metrics["test_accuracy"][-1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--events", type=int, default=10)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--model", default='{"name": "mlp"}', help="the [model] section as JSON")
    parser.add_argument("--out", metavar="STEM", help="write STEM.json and, where matplotlib is installed, STEM.svg")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        print(json.dumps(measure(args.child, args.events, args.steps, args.batch, json.loads(args.model))))
        return
    rows = []
    print(f"{'devices':>9} {'us/device-step':>15} {'CPU us':>8} {'seconds':>9} {'peak MiB':>9}  learner")
    for devices in args.devices:
        same = [
            "--events",
            str(args.events),
            "--steps",
            str(args.steps),
            "--batch",
            str(args.batch),
            "--model",
            args.model,
        ]
        child = subprocess.run(
            [sys.executable, __file__, "--child", str(devices), *same], check=True, capture_output=True, text=True
        )
        row = json.loads(child.stdout.splitlines()[-1])
        rows.append(row)
        print(
            f"{row['devices']:>9,} {row['us_per_device_step']:>15.2f} {row['cpu_us_per_device_step']:>8.2f} "
            f"{row['compute_s']:>9.2f} {row['peak_mib']:>9.0f}  {row['learner']}",
            flush=True,
        )
    if args.out:
        Path(f"{args.out}.json").write_text(json.dumps(rows, indent=1) + "\n")
        plot(rows, f"{args.out}.svg")


def plot(rows: list[dict[str, Any]], file: str) -> None:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    devices = [row["devices"] for row in rows]
    left.loglog(devices, [row["compute_s"] / row["events"] for row in rows], "o-")
    left.set(xlabel="devices K", ylabel="seconds an event")
    right.semilogx(devices, [row["peak_mib"] / 1024 for row in rows], "o-")
    right.axhline(4, color="grey", linestyle=":", label="4 GiB")
    right.set(xlabel="devices K", ylabel="peak memory, GiB", ylim=0)
    right.legend(frameon=False)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(file)


if __name__ == "__main__":
    main()
