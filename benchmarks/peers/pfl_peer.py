"""pfl-research: its federated averaging on its simulated backend, one process for each core."""

import os
import socket
import subprocess
import sys

import numpy as np
import torch
from protocol import Pacer, he_normal, load_work
from torch import nn

PROCESSES = os.cpu_count() or 1
rank = int(os.environ.get("PFL_WORKER_RANK", "0"))
if "PFL_WORKER_RANK" not in os.environ and PROCESSES > 1:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    os.environ["PFL_WORKER_ADDRESSES"] = ",".join(f"localhost:{port + i}" for i in range(PROCESSES))
    os.environ["PFL_WORKER_RANK"] = "0"
    for i in range(1, PROCESSES):
        environment = {**os.environ, "PFL_WORKER_RANK": str(i)}
        subprocess.Popen([sys.executable, *sys.argv], env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr)

from pfl.aggregate.simulate import SimulatedBackend  # noqa: E402  it reads the variables above
from pfl.algorithm.base import NNAlgorithmParams  # noqa: E402
from pfl.algorithm.federated_averaging import FederatedAveraging  # noqa: E402
from pfl.callback.base import TrainingProcessCallback  # noqa: E402
from pfl.data.dataset import Dataset  # noqa: E402
from pfl.data.federated_dataset import FederatedDataset  # noqa: E402
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams  # noqa: E402
from pfl.metrics import Metrics  # noqa: E402
from pfl.model.pytorch import PyTorchModel  # noqa: E402

torch.set_num_threads(1)
np.random.seed(0)  # noqa: NPY002  the framework draws from the global state, alike in all processes
pacer = Pacer() if rank == 0 else None
work = load_work()
rng = np.random.default_rng(rank)
x, y = torch.from_numpy(work.x), torch.from_numpy(work.y)
x_test, y_test = torch.from_numpy(work.x_test), torch.from_numpy(work.y_test)


class Network(nn.Sequential):
    def __init__(self, widths):
        super().__init__(
            nn.Linear(widths[0], widths[1]), nn.ReLU(), nn.Linear(widths[1], widths[2]), nn.ReLU(),
            nn.Linear(widths[2], widths[3]),
        )  # fmt: skip
        with torch.no_grad():
            values = [a for layer in he_normal(widths) for a in layer]
            for parameter, value in zip(self.parameters(), values, strict=True):
                parameter.copy_(torch.from_numpy(value))

    def loss(self, images, labels, eval=False):
        return nn.functional.cross_entropy(self(images), labels)

    def metrics(self, images, labels, eval=False):
        return {}


class Judge(TrainingProcessCallback):
    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        if pacer is not None:
            with torch.no_grad():
                accuracy = (model.pytorch_model(x_test).argmax(1) == y_test).float().mean().item()
            pacer.round_done(accuracy)
        return False, Metrics()


def batches_of(device):
    """The samples of M batches: what a device would read of its data."""
    mine = work.indices[device]
    chosen = torch.from_numpy(mine[rng.integers(len(mine), size=work.steps * work.batch)])
    return Dataset(raw_data=[x[chosen], y[chosen]], user_id=device)


rounds = iter(work.participants.ravel().tolist())
network = Network(work.widths)
users = FederatedDataset(batches_of, lambda: next(rounds))
model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), lr=1.0))
if pacer is not None:
    pacer.ready("pfl", "torch", processes=PROCESSES, threads_each=1)
FederatedAveraging().run(
    NNAlgorithmParams(
        central_num_iterations=10**9, evaluation_frequency=10**9, train_cohort_size=work.per_round, val_cohort_size=0
    ),
    SimulatedBackend(training_data=users, val_data=users),
    model,
    NNTrainHyperParams(
        local_num_epochs=1,
        local_learning_rate=work.learning_rate,
        local_batch_size=work.batch,
        local_max_grad_norm=None,
    ),
    NNEvalHyperParams(local_batch_size=None),
    callbacks=[Judge()],
    send_metrics_to_platform=False,
)
