"""Local training with PyTorch: bits do not depend on threads, and modules may draw random numbers."""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.nets import FEATURES, table, torch_net

import paota
from paota import engine

torch = pytest.importorskip("torch", reason="needs PyTorch")
nn = torch.nn


class Noisy(nn.Module):
    """A network that draws by a layer, by a function and by a tensor."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, 20), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(20, 10)

    def forward(self, x):
        x = nn.functional.dropout(self.layers(x), 0.1, training=self.training)
        return self.head(x + 0.01 * torch.randn_like(x))


def test_a_module_that_draws_has_the_same_bits_in_any_company():
    torch.manual_seed(3)
    net, algorithms = Noisy(), [{"name": "local-sgd", "participants": 8}, {"name": "paota"}]
    before = torch.get_rng_state()
    together = paota.run(table(net, rounds=3, algorithms=algorithms), seeds=2)
    alone = paota.run(table(net, rounds=3, algorithms=algorithms[:1]), seeds=[1])
    assert torch.equal(before, torch.get_rng_state())  # the user's own draws continue as if nothing had happened
    a, b = together.of("local-sgd")[1], alone.of("local-sgd")[0]
    np.testing.assert_array_equal(a.model, b.model)
    assert a.model.tolist() != together.of("local-sgd")[0].model.tolist()
    engine.forget_programs()
    fresh = paota.run(table(net, rounds=3, algorithms=algorithms), seeds=2)
    assert [t.model.tolist() for t in fresh.trajectories] == [t.model.tolist() for t in together.trajectories]
    silent = paota.run(table(torch_net(nn.Dropout(0.5)), rounds=3, training={"learning_rate": 1e-9}))
    loss = silent.array("local-sgd", "test_loss")[0]
    np.testing.assert_allclose(loss, loss[0], rtol=1e-5)  # an evaluation does not draw


SCRIPT = """
import sys, torch, paota
sys.path.insert(0, sys.argv[1])
from helpers.nets import table, torch_net
torch.manual_seed(0)
net = torch_net(torch.nn.Linear(64, 64), torch.nn.ReLU())
print(paota.run(table(net, rounds=2)).trajectories[0].model.tobytes().hex())
"""


def test_bits_do_not_depend_on_the_number_of_threads():
    tests = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120
    models = []
    for threads in ("1", "2"):
        command = [sys.executable, "-c", SCRIPT, tests]
        ended = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": threads}, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        models.append(ended.stdout)
    assert models[0] == models[1]


def test_a_run_leaves_the_threads_of_pytorch_alone():
    before = torch.get_num_threads()
    paota.run(table(torch_net(), rounds=1))
    assert torch.get_num_threads() == before


def test_buffers_begin_anew_with_every_device():
    class Counting(nn.Module):
        """A network that trains differently with every call."""

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(FEATURES, 10)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += self.training
            return self.layer(x.flatten(1)) * (1 + self.calls)

    net = Counting()
    one, other = (paota.run(table(net, rounds=2)).trajectories[0].model for _ in range(2))
    np.testing.assert_array_equal(one, other)
