"""`paota new algorithm NAME`: a working, tested starting point for an algorithm of your own."""

from __future__ import annotations

import argparse
import keyword
import re
from pathlib import Path
from typing import Any

from ..errors import UserError, unknown_name
from ..registry import ALGORITHMS
from ..runs.files import write_text

KINDS = ("algorithm",)


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "new",
        help="write the skeleton of an algorithm of your own",
        description="Write NAME.py (an algorithm that works as it stands), its test and an experiment, in this folder.",
    )
    parser.add_argument("kind", metavar="algorithm", help="what to write: algorithm")
    parser.add_argument("name", metavar="NAME", help="its name in experiment files, e.g. my-policy")


def run(args: argparse.Namespace) -> int:
    if args.kind not in KINDS:
        raise unknown_name("kind of skeleton", args.kind, KINDS)
    files = skeleton(args.name)
    for file in files:
        if Path(file).exists():
            raise UserError(f"'{file}' exists already: choose another name, or another folder")
    for file, text in files.items():
        write_text(Path(file), text)
    module, test, experiment = files
    print(f"wrote {', '.join(files)}\n\ntry it:\n  paota run {experiment} --plugin {module}\n  pytest {test}")
    return 0


def skeleton(name: str) -> dict[str, str]:
    """File name -> text, for an algorithm called `name`."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or len(name) > 40:
        raise UserError(f"'{name}' is no name for an algorithm: small letters, digits and hyphens, e.g. my-policy")
    if name in ALGORITHMS:
        raise UserError(f"the algorithm '{name}' exists already")
    module = name.replace("-", "_")
    if keyword.iskeyword(module):
        raise UserError(f"'{name}' is a word of Python itself: choose another name")
    words = {"NAME": name, "MODULE": module, "CLASS": "".join(part.capitalize() for part in name.split("-"))}
    files = {f"{module}.py": ALGORITHM, f"test_{module}.py": TEST, f"{module}.toml": EXPERIMENT}
    return {file: _fill(text, words) for file, text in files.items()}


def _fill(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


ALGORITHM = '''"""@NAME@: periodic aggregation over the air, fresher devices louder.

An algorithm is a scheme and three steps: `report` on the device (scalars for the control channel), `amplitudes` on the
server (how loud each device arrives), `next_model` (from the one vector that was heard). This one needs only the second;
docs/extend.md shows the others.
"""

from dataclasses import dataclass

import paota


@dataclass(frozen=True, kw_only=True)
class @CLASS@(paota.Algorithm):
    """p_k = p_k^max * decay^(s_k), s_k the staleness. Fields are settings of the experiment file."""

    decay: float = paota.setting(0.5, above=0, high=1)
    payload: str = paota.setting("update", options=("model", "update"))
    scheme = paota.Periodic()  # others: ShareReady, Tiered, Synchronous, Asynchronous, ...

    def amplitudes(self, event, uplink, power):
        """How loud each device arrives, [n]; `average` divides what is heard by the sum. Pure JAX."""
        cap = paota.amplitude_cap(uplink, event.energy, power.cap)
        return paota.average(cap * self.decay**event.staleness, event)


paota.register("algorithm", "@NAME@", @CLASS@)
'''

TEST = '''"""Golden values by hand, then a small run. `pytest test_@MODULE@.py`"""

import numpy as np
from @MODULE@ import @CLASS@

import paota


def test_by_hand():
    """A fresh device and one that is one version stale: p = (15, 7.5), weights 2/3 and 1/3."""
    updates = [[3.0, 0.0], [0.0, 3.0]]
    served = paota.aggregate_by_hand(@CLASS@(decay=0.5), updates, model=[1.0, 1.0], staleness=[0, 1])
    np.testing.assert_allclose(served.amplitude, [15, 7.5], rtol=1e-6)
    np.testing.assert_allclose(served.model, [1 + 3 * 2 / 3, 1 + 3 / 3], rtol=1e-6)


def test_learns():
    result = paota.run(
        {
            "rounds": 15,
            "model": {"name": "softmax"},
            "data": {"dataset": "synthetic", "devices": 12, "sizes": [100]},
            "algorithms": [{"name": "@NAME@"}],
        }
    )
    accuracy = result.trajectories[0].metrics["test_accuracy"]
    assert accuracy[-1] > accuracy[0] + 0.2
'''

EXPERIMENT = """# paota run @MODULE@.toml --plugin @MODULE@.py
name = "@NAME@"
rounds = 30

[data]                            # small and quick; remove the section for the paper's data
dataset = "synthetic"
devices = 20
sizes = [30, 60, 90, 120, 150]

[[algorithms]]
name = "@NAME@"

[[algorithms]]
name = "paota"
payload = "update"
"""
