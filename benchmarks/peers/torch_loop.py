"""A hand-written PyTorch loop: one client after the other, one optimiser step after the other."""

import numpy as np
import torch
from protocol import Pacer, draw_batches, he_normal, load_work
from torch import nn

pacer, work = Pacer(), load_work()
torch.set_num_threads(1)  # the matrices of one client are too small for two

x, y = torch.from_numpy(work.x), torch.from_numpy(work.y)
x_test, y_test = torch.from_numpy(work.x_test), torch.from_numpy(work.y_test)
widths = work.widths
model = nn.Sequential(
    nn.Linear(widths[0], widths[1]),
    nn.ReLU(),
    nn.Linear(widths[1], widths[2]),
    nn.ReLU(),
    nn.Linear(widths[2], widths[3]),
)
parameters = list(model.parameters())
served = [torch.from_numpy(a) for layer in he_normal(widths) for a in layer]
optimizer = torch.optim.SGD(parameters, lr=work.learning_rate)
loss_of = nn.CrossEntropyLoss()
rng = np.random.default_rng(0)


def load(values: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for mine, value in zip(parameters, values, strict=True):
            mine.copy_(value)


pacer.ready("torch", threads=1)
while True:
    devices = work.participants[pacer.round]
    batches = torch.from_numpy(draw_batches(rng, work, devices))
    total = [torch.zeros_like(value) for value in served]
    for samples in batches:
        load(served)
        for batch in samples:
            optimizer.zero_grad()
            loss_of(model(x[batch]), y[batch]).backward()
            optimizer.step()
        for sum_, mine in zip(total, parameters, strict=True):
            sum_ += mine.detach()
    served = [sum_ / len(devices) for sum_ in total]
    load(served)
    with torch.no_grad():
        accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
    pacer.round_done(accuracy)
