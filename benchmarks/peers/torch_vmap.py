"""`torch.func.vmap` over the clients of a round, plain or under `torch.compile`.

Arguments after the data: threads, and what is compiled (`nothing`, each `step`, or the `round` as a whole).
"""

import sys

import numpy as np
import torch
from protocol import Pacer, draw_batches, he_normal, load_work
from torch.func import grad, vmap
from torch.nn import functional as F

pacer, work = Pacer(), load_work()
threads, compiled = int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(threads)

x, y = torch.from_numpy(work.x), torch.from_numpy(work.y)
x_test, y_test = torch.from_numpy(work.x_test), torch.from_numpy(work.y_test)
served = [torch.from_numpy(a) for layer in he_normal(work.widths) for a in layer]
rng = np.random.default_rng(0)


def logits(parameters, images):
    w1, b1, w2, b2, w3, b3 = parameters
    hidden = torch.relu(F.linear(images, w1, b1))
    return F.linear(torch.relu(F.linear(hidden, w2, b2)), w3, b3)


def loss(parameters, images, labels):
    return F.cross_entropy(logits(parameters, images), labels)


def step(parameters, images, labels):
    """One SGD step of all clients: parameters [clients, ...], images [clients, batch, 784]."""
    gradients = vmap(grad(loss))(parameters, images, labels)
    return [p - work.learning_rate * g for p, g in zip(parameters, gradients, strict=True)]


def train(served, samples):
    parameters = [p.expand(len(samples), *p.shape) for p in served]
    for m in range(work.steps):
        batch = samples[:, m]
        parameters = step(parameters, x[batch], y[batch])
    return [p.mean(0) for p in parameters]


def judge(parameters):
    return (logits(parameters, x_test).argmax(1) == y_test).float().mean()


if compiled == "step":
    step, judge = torch.compile(step, dynamic=False), torch.compile(judge, dynamic=False)
elif compiled == "round":
    train, judge = torch.compile(train, dynamic=False), torch.compile(judge, dynamic=False)

pacer.ready("torch", threads=threads, compiled=compiled)
with torch.no_grad():
    while True:
        samples = torch.from_numpy(draw_batches(rng, work, work.participants[pacer.round]))
        served = train(served, samples)
        pacer.round_done(judge(served).item())
