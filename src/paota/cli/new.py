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

What to change: `amplitude` is the power policy, `aggregate` the server's rule, `timeline` who takes part when.
"""

from dataclasses import dataclass

import jax.numpy as jnp

import paota
from paota.algorithms import Algorithm
from paota.algorithms.base import superpose
from paota.algorithms.power_policy import amplitude_cap
from paota.settings import setting
from paota.timing import periodic


@dataclass(frozen=True, kw_only=True)
class @CLASS@(Algorithm):
    """p_k = p_k^max * decay^(s_k), s_k the staleness. Fields are settings of the experiment file."""

    decay: float = setting(0.5, above=0, high=1)

    def timeline(self, world):
        # Others: synchronous, asynchronous, buffered, grouped (paota.timing).
        return periodic(world.latencies, period_s=world.period_s, horizon=world.horizon)

    def aggregate(self, event, uplink, power):
        """w^(r+1) = w^r + y / sum p. Pure JAX; `event.ready` is False for padding."""
        p = jnp.where(event.ready, self.amplitude(event, uplink, power), 0.0)
        received = superpose(event, uplink, p, event.update)
        return received._replace(model=event.model + received.model)

    def amplitude(self, event, uplink, power):
        return amplitude_cap(uplink, event.update, power.cap) * self.decay**event.staleness


paota.register("algorithm", "@NAME@", @CLASS@)
'''

TEST = '''"""Golden values by hand, then a small run. `pytest test_@MODULE@.py`"""

import jax
import jax.numpy as jnp
import numpy as np
from @MODULE@ import @CLASS@

import paota
from paota.air import Uplink
from paota.algorithms import Event
from paota.experiment import Power


def test_by_hand():
    """A fresh device and one that is one version stale: p = (15, 7.5), weights 2/3 and 1/3."""
    model = jnp.array([1.0, 1.0])
    update = jnp.array([[3.0, 0.0], [0.0, 3.0]])
    ready = jnp.array([True, True])
    event = Event(
        round=jnp.array(4), model=model, previous_model=model, local_model=model + update, update=update,
        staleness=jnp.array([0, 1]), num_samples=jnp.ones(2), ready=ready, num_devices=jnp.array(2.0), state=(),
    )
    uplink = Uplink(jnp.array([1.0, 2j]), ready, jnp.array(0.0), jnp.array(15.0), jax.random.key(0))
    outcome = @CLASS@(decay=0.5).aggregate(event, uplink, Power())
    np.testing.assert_allclose(outcome.amplitude, [15, 7.5], rtol=1e-6)
    np.testing.assert_allclose(outcome.model, [1 + 3 * 2 / 3, 1 + 3 / 3], rtol=1e-6)


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
