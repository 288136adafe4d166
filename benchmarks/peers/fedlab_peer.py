"""FedLab: its standalone pipeline with the serial trainer."""

import logging

import no_torchvision  # noqa: F401  before anything that imports it
import numpy as np
import torch
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.core.standalone import StandalonePipeline
from protocol import Pacer, he_normal, load_work
from torch import nn

pacer, work = Pacer(), load_work()
torch.set_num_threads(1)  # the matrices of one client are too small for two
logging.disable(logging.CRITICAL)
rng = np.random.default_rng(0)
x, y = torch.from_numpy(work.x), torch.from_numpy(work.y)
x_test, y_test = torch.from_numpy(work.x_test), torch.from_numpy(work.y_test)


class InMemory:
    """M batches of a device, without the cost of a DataLoader."""

    def get_dataloader(self, device, batch_size):
        mine = work.indices[device]
        batches = torch.from_numpy(mine[rng.integers(len(mine), size=(work.steps, batch_size))])
        return [(x[batch], y[batch]) for batch in batches]


class Handler(SyncServerHandler):
    def sample_clients(self):
        return work.participants[pacer.round].tolist()


class Pipeline(StandalonePipeline):
    def evaluate(self):
        with torch.no_grad():
            accuracy = (self.handler.model(x_test).argmax(1) == y_test).float().mean().item()
        pacer.round_done(accuracy)


widths = work.widths
model = nn.Sequential(
    nn.Linear(widths[0], widths[1]),
    nn.ReLU(),
    nn.Linear(widths[1], widths[2]),
    nn.ReLU(),
    nn.Linear(widths[2], widths[3]),
)
with torch.no_grad():
    values = [a for layer in he_normal(widths) for a in layer]
    for parameter, value in zip(model.parameters(), values, strict=True):
        parameter.copy_(torch.from_numpy(value))
handler = Handler(model, global_round=10**9, sample_ratio=work.per_round / work.devices)
trainer = SGDSerialClientTrainer(model, num_clients=work.devices)
trainer.setup_dataset(InMemory())
trainer.setup_optim(epochs=1, batch_size=work.batch, lr=work.learning_rate)
pipeline = Pipeline(handler, trainer)
assert handler.num_clients_per_round == work.per_round
pacer.ready("fedlab", "torch", threads=1)
pipeline.main()
