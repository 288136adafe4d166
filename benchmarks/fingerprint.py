"""Do results stay the same, bit by bit? Hashes of models, metrics, device records and timelines of many small runs.

    python benchmarks/fingerprint.py --record before.json      # before a change that must not alter results
    python benchmarks/fingerprint.py --check before.json       # after it; exits with 1 and names the runs that differ

The runs cover every algorithm with every payload, every scheme, faults, guards, antennas, imperfections of the air,
digital links, server optimisers, blocks, resuming, a fleet that comes and goes, the fused and the generic learner, and a
deployment in memory (which needs Flower). Hashes depend on the processor and on the versions of JAX and NumPy: compare
only what one machine has made.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import importlib
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

import paota
from paota import engine, simulate
from paota.base.errors import Interrupted
from paota.base.registry import ALGORITHMS
from paota.engine import blocks, structures
from paota.results.checkpoint import Checkpoints

SMALL: dict[str, Any] = {
    "rounds": 6,
    "data": {"dataset": "synthetic", "devices": 12, "sizes": [30, 60]},
    "model": {"name": "mlp", "hidden": [8]},
    "training": {"local_steps": 2, "batch_size": 8},
    "timing": {"period_s": 6.0},
    "power": {"cap": "paper"},
}
RENAMED = {  # columns by today's name -> the name under which their hashes were recorded
    "amplitude": "power", "amplitude_sum": "power_sum", "transmit_power_w": "transmit_w",
    "transmit_power_w_mean": "transmit_w_mean", "transmit_power_w_max": "transmit_w_max",
}  # fmt: skip
LATENCIES: dict[str, dict[str, Any]] = {
    "uniform": {},
    "lognormal": {"latency": "lognormal", "spread": 0.8},
    "per-device": {"latency": "per-device"},
    "two-speeds": {"latency": "two-speeds"},
}
FLEET = """device,time_s,available
a,0,1
a,20,0
a,35,1
b,0,1
b,10,0
b,60,1
c,5,1
d,0,1
d,30,0
"""


def algorithms() -> list[dict[str, Any]]:
    """One line for each built-in algorithm, two where it has a payload to choose."""
    lines = []
    for name in ALGORITHMS:
        payloads: list[dict[str, Any]] = [{}]
        if "payload" in _settings(name):
            payloads = [{"payload": payload, "label": f"{name} {payload}"} for payload in ("model", "update")]
        lines += [{"name": name, **payload} for payload in payloads]
    return lines


def merged(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables one over the other, section by section; None takes a setting away."""
    out: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            out[key] = merged(out.get(key, {}), value) if isinstance(value, Mapping) else value
    return {key: value for key, value in out.items() if value is not None}


def digest(*arrays: Any) -> str:
    """A short hash of arrays: their types, shapes and bytes."""
    total = hashlib.sha256()
    for array in map(np.asarray, arrays):
        total.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def of_columns(columns: Mapping[str, Any]) -> dict[str, str]:
    return {RENAMED.get(name, name): digest(column) for name, column in columns.items()}


def of_result(result: paota.Result) -> dict[str, Any]:
    """The hashes of every trajectory, by label and seed."""
    return {
        f"{run.label}, seed {run.seed}": {
            "model": digest(run.model),
            "metrics": of_columns(run.metrics),
            "devices": of_columns(run.devices),
            "own": of_columns(run.device_scores),
        }
        for run in result.trajectories
    }


def of_timelines(table: Mapping[str, Any], seeds: int) -> dict[str, Any]:
    """The hashes of the timelines of an experiment; nothing is learned."""

    def of(timeline: Any) -> str:
        parts = [getattr(timeline, name) for name in ("time_s", "offsets", "device", "version", "training", "start_s")]
        more = [part for part in (timeline.finish_s, timeline.lost) if part is not None]
        return digest(*parts, *more) + ("" if timeline.aborted is None else of(timeline.aborted))

    plan = simulate.prepare(paota.Experiment.from_dict(table), seeds=seeds)
    return {f"{label}, seed {seed}": of(timeline) for (label, seed), timeline in plan.timelines.items()}


def timelines_with(timing: Mapping[str, Any]) -> dict[str, Any]:
    sizes = {"rounds": 100, "data": {"devices": 100}}
    return of_timelines(merged(SMALL, sizes, {"timing": timing, "algorithms": algorithms()}), seeds=2)


def simulated(*tables: Mapping[str, Any], seeds: int = 1) -> dict[str, Any]:
    return of_result(paota.run(merged(SMALL, *tables), seeds=seeds))


def operations(jaxpr: Any) -> set[str]:
    """Return the operations of a traced program with the types of arguments and results, in any order."""
    found = set()
    for equation in jaxpr.eqns:
        variables = [str(variable.aval) for variable in (*equation.invars, *equation.outvars)]
        inside, words = [], [equation.primitive.name, *variables]
        for name, value in sorted(equation.params.items()):
            parts = value if isinstance(value, tuple | list) else (value,)
            programs_inside = [part for part in parts if hasattr(part, "eqns")]
            inside += programs_inside
            if not programs_inside and name not in (
                "name",
                "call_jaxpr_thunk",
                "fwd_jaxpr_thunk",
                "bwd",
                "jvp_jaxpr_fun",
            ):
                words.append(re.sub(r"0x[0-9a-f]+", "", f"{name}={value}"))
        found.add(" ".join(words))
        found |= set().union(*map(operations, inside))
    return found


def programs() -> dict[str, Any]:
    """The operations in the traced programs (jaxprs) of every algorithm."""
    plain, traced = engine.program, {}

    def trace(task: Any, sizes: Any, arguments: tuple[Any, ...]) -> Any:
        jaxpr = jax.make_jaxpr(functools.partial(engine.run_events, task, sizes))(*arguments)
        text = "\n".join(sorted(operations(jaxpr)))
        traced[engine.program_key(task, sizes, arguments)] = hashlib.sha256(text.encode()).hexdigest()[:16]
        return plain(task, sizes, arguments)

    setattr(engine, "program", trace)  # noqa: B010
    try:
        simulated({"algorithms": algorithms()})
    finally:
        setattr(engine, "program", plain)  # noqa: B010
    return {str(number): value for number, value in enumerate(sorted(traced.values()))}


def in_blocks() -> dict[str, Any]:
    """Return the fingerprint with memory for sixteen devices of an event."""
    kept = {name: getattr(structures, name) for name in ("SMALL_BYTES", "HELD_BYTES", "BLOCK_BYTES")}
    lines = [{"name": "paota"}, {"name": "local-sgd", "weighting": "samples"}, {"name": "cotaf", "fading": True}]
    try:
        for name in kept:
            setattr(structures, name, 0)
        setattr(blocks, "HELD_BYTES", 0)  # noqa: B010  mypy: it is another module's
        return simulated({"data": {"devices": 40}, "algorithms": lines})
    finally:
        for name, value in kept.items():
            setattr(structures, name, value)
        setattr(blocks, "HELD_BYTES", kept["HELD_BYTES"])  # noqa: B010


def resumed() -> dict[str, Any]:
    """Interrupted after the first checkpoint, and again after each further one."""

    class EveryCall(Checkpoints):
        called = False

        def due(self, unit: int) -> bool:
            return True

        def save(self, unit: int, saved: Any) -> None:
            super().save(unit, saved)
            self.called = True

    lines = [{"name": "paota"}, {"name": "paota-plus"}, {"name": "cotaf"}]
    plan = simulate.prepare(paota.Experiment.from_dict(merged(SMALL, {"algorithms": lines})), seeds=2)
    with tempfile.TemporaryDirectory() as folder:
        while True:
            checkpoints = EveryCall(Path(folder) / "c", simulate.identity(plan))
            stop = functools.partial(getattr, checkpoints, "called")
            try:
                return of_result(simulate.execute(plan, events_per_call=3, checkpoints=checkpoints, stop=stop))
            except Interrupted:
                continue


def with_fleet() -> dict[str, Any]:
    """A fleet that comes and goes, by either rule for a training whose device leaves."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fleet.csv"
        file.write_text(FLEET)
        out = {}
        for leaving in ("suspend", "restart"):
            timing = {"fleet_file": str(file), "fleet_repeat_s": 80.0, "when_leaving": leaving}
            table = merged(SMALL, {"rounds": 30, "timing": timing, "algorithms": algorithms()})
            out[leaving] = of_timelines(table, seeds=2)
        out["learned"] = simulated({"timing": timing, "algorithms": [{"name": "paota"}, {"name": "fedbuff"}]})
    return out


def deployed() -> dict[str, Any]:
    """The server and its devices in memory, with latencies as the simulator draws them."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    deploy = importlib.import_module("helpers.deployment").deploy
    logging.getLogger("flwr").setLevel(logging.ERROR)

    lines: list[dict[str, Any]]
    lines = [{"name": name} for name in ("paota", "local-sgd", "fedbuff", "air-fedga", "tt-fed", "paota-plus", "fedat")]
    lines += [{"name": "cotaf", "participants": 4}, {"name": "age-based", "participants": 4}]
    with tempfile.TemporaryDirectory() as folder:
        out: dict[str, Any] = {}
        for number, line in enumerate(lines):
            place = Path(folder) / str(number)
            place.mkdir()
            result, _ = deploy(place, merged(SMALL, {"data": {"devices": 6}, "algorithms": [line]}))
            out |= of_result(result)
        return out


def _settings(name: str) -> set[str]:
    return {field.name for field in dataclasses.fields(ALGORITHMS[name])}


@contextmanager
def learner(name: str) -> Iterator[None]:
    os.environ["PAOTA_LEARNER"] = name
    try:
        yield
    finally:
        del os.environ["PAOTA_LEARNER"]


def generic() -> dict[str, Any]:
    """The learner that knows no model by name, on what the fused one computes otherwise."""
    with learner("generic"):
        return simulated({"algorithms": [{"name": "paota"}, {"name": "local-sgd"}]})


PAIR = {"algorithms": [{"name": "paota"}, {"name": "cotaf", "fading": True}]}
FAULTS = {
    "dropout": 0.2, "lost_broadcasts": 0.2, "stragglers": 0.3, "stuck": 0.1, "corrupted": 0.2, "corruption": "sign-flip",
    "deep_fades": 0.2, "csi_outage": 0.1,
}  # fmt: skip
CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "every algorithm": lambda: simulated({"algorithms": algorithms()}, seeds=2),
    "programs": programs,
    "every algorithm, physical cap": lambda: simulated({"power": {"cap": "physical"}, "algorithms": algorithms()}),
    "generic learner": generic,
    "faults": lambda: simulated({"rounds": 12, "faults": FAULTS, **PAIR}, seeds=2),
    "guards": lambda: simulated(
        {"faults": {"corrupted": 0.3}, "guards": {"reject_non_finite": True, "max_staleness": 1}, **PAIR}
    ),
    "private": lambda: simulated({"guards": {"max_update_norm": 0.5, "noise_multiplier": 0.1}, **PAIR}),
    "antennas": lambda: simulated({"air": {"antennas": 4, "combiner": "mmse"}, **PAIR}),
    "max-min antennas, packed": lambda: simulated(
        {"air": {"antennas": 3, "combiner": "max-min", "packing": "complex"}, **PAIR}
    ),
    "imperfect air": lambda: simulated(
        {"air": {"csi_error": 0.1, "phase_error_rad": 0.1, "timing_error_symbols": 0.2, "n0_dbm_per_hz": -40.0}, **PAIR}
    ),
    "street": lambda: simulated(
        {"air": {"path_loss": "umi", "fading": "rician", "digital": "ofdma", "control_mbit_per_s": 1.0},
         "algorithms": [{"name": "paota"}, {"name": "local-sgd"}, {"name": "fedbuff"}]}
    ),
    "jakes and tdma": lambda: simulated(
        {"air": {"fading": "jakes", "digital": "tdma"}, "algorithms": [{"name": "paota"}, {"name": "local-sgd"}]}
    ),
    "digital downlink": lambda: simulated({"air": {"downlink": "digital", "broadcast_loss": 0.3}, **PAIR}),
    "analog downlink": lambda: simulated({"air": {"downlink": "analog"}, **PAIR}),
    "energy budget": lambda: simulated({"power": {"cap": "physical", "energy_budget_j": 2e-6}, **PAIR}),
    "server optimisers": lambda: simulated(
        {"algorithms": [{"name": "paota", "payload": "update", "label": name, "server": {"optimiser": name}}
                        for name in ("sgd", "momentum", "adam", "yogi")]}
    ),
    "epochs, Adam, schedule": lambda: simulated(
        {"training": {"epochs": 2, "local_steps": None, "optimiser": "adam", "schedule": "cosine"}, **PAIR}
    ),
    "convolutional network": lambda: simulated(
        {"data": {"dataset": "mnist", "devices": 4, "sizes": [16]}, "rounds": 2,
         "model": {"name": "lenet5", "hidden": None}, **PAIR}
    ),
    "over-selection and deadlines": lambda: simulated(
        {"algorithms": [{"name": "cotaf", "label": "over", "selected": 10, "participants": 4},
                        {"name": "local-sgd", "label": "deadline", "participants": 8, "deadline_s": 9.0}]}
    ),
    "work latencies": lambda: simulated({"timing": {"latency": "work"}, **PAIR}),
    "stopped by time": lambda: simulated({"rounds": None, "duration_s": 40.0, "algorithms": algorithms()}),
    "blocks": in_blocks,
    "resumed": resumed,
    "fleet": with_fleet,
    "deployed": deployed,
    **{f"timelines, {name}": functools.partial(timelines_with, timing) for name, timing in LATENCIES.items()},
}  # fmt: skip


def flat(tree: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """(place, hash) of every hash in nested tables."""
    if isinstance(tree, str):
        yield place, tree
        return
    for key, value in tree.items():
        yield from flat(value, f"{place} / {key}" if place else key)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the hashes to this file")
    parser.add_argument("--check", type=Path, metavar="FILE", help="compare with the hashes in this file")
    parser.add_argument("--only", nargs="+", default=list(CASES), metavar="CASE", help=f"some of: {', '.join(CASES)}")
    args = parser.parse_args()
    made: dict[str, str] = {}
    for name in args.only:
        found = dict(flat(CASES[name](), name))
        made |= found
        print(f"{name}: {len(found)} hashes, {digest(sorted(found.items()))}", flush=True)
    print(f"{len(args.only)} cases, {len(made)} hashes, {digest(sorted(made.items()))}")
    if args.record:
        args.record.write_text(json.dumps(made, indent=1))
    if not args.check:
        return 0
    before = {place: value for place, value in json.loads(args.check.read_text()).items()
              if place.split(" / ")[0] in args.only}  # fmt: skip
    different = sorted(place for place in {**before, **made} if before.get(place) != made.get(place))
    for place in different[:40]:
        state = "differs" if place in before and place in made else "is new" if place in made else "is gone"
        print(f"{place} {state}")
    print(f"{len(different)} of {len(before)} hashes differ" if different else "all hashes are equal")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
