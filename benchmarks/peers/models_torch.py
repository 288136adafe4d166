"""Networks in plain PyTorch, one device after the other, or side by side with `torch.func.vmap`.

Arguments: model, threads, memory format (`contiguous` or `channels_last`), `loop` or `vmap` (compiled).
"""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Callable

import models_work as work
import numpy as np
import torch
from protocol import Pacer
from torch import nn
from torch.nn import functional as F

JUDGED_AT_ONCE = 100  # thousands leave the cache and take twice as long

pacer = Pacer()
name, threads, layout, how = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.set_num_threads(threads)
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, before: int, channels: int) -> None:
        super().__init__()
        self.stride, self.new = 1 if before == channels else 2, channels - before
        self.conv0 = nn.Conv2d(before, channels, 3, stride=self.stride, padding=1, bias=False)
        self.norm0 = nn.GroupNorm(8, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(8, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        residual = self.norm1(self.conv1(F.relu(self.norm0(self.conv0(x)))))
        shortcut = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.new)) if self.new else x
        return F.relu(shortcut + residual)


class Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3))


def convolutional(channels: tuple[int, int, int], size: int, padding: tuple[int, int], *dense: int) -> nn.Module:
    layers: list[nn.Module] = []
    for before, outputs, border in zip(channels[:-1], channels[1:], padding, strict=True):
        layers += [nn.Conv2d(before, outputs, size, padding=border), nn.ReLU(), nn.MaxPool2d(2)]
    layers.append(nn.Flatten())
    for inputs, outputs in itertools.pairwise(dense):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def residual(blocks: int) -> nn.Module:
    widths = [16] + [width for width in (16, 32, 64) for _ in range(blocks)]
    first = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(8, 16), nn.ReLU()]
    stages = [Block(before, width) for before, width in itertools.pairwise(widths)]
    return nn.Sequential(*first, *stages, Mean(), nn.Linear(64, 10))


BUILD: dict[str, Callable[[], nn.Module]] = {
    "cnn-grey": lambda: convolutional((1, 32, 64), 3, (1, 1), 7 * 7 * 64, 128, 10),
    "cnn-colour": lambda: convolutional((3, 32, 64), 3, (1, 1), 8 * 8 * 64, 128, 10),
    "fedavg-cnn": lambda: convolutional((1, 32, 64), 5, (2, 2), 7 * 7 * 64, 512, 10),
    "lenet5": lambda: convolutional((1, 6, 16), 5, (2, 0), 5 * 5 * 16, 120, 84, 10),
    "resnet8": lambda: residual(1),
    "resnet20": lambda: residual(3),
    "mlp": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)
    ),
}


def images(samples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = work.data(work.MODELS[name], samples, seed)
    tensor = torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
    return (tensor.to(memory_format=torch.channels_last) if layout == "channels_last" else tensor), torch.from_numpy(y)


x, y = images(work.TRAINING, 0)
x_test, y_test = images(work.TEST, 1)
model = BUILD[name]()
if layout == "channels_last":
    model = model.to(memory_format=torch.channels_last)
parameters = list(model.parameters())
served = [p.detach().clone() for p in parameters]
trainee = copy.deepcopy(model)
optimizer = torch.optim.SGD(trainee.parameters(), lr=work.LEARNING_RATE)


def loop(samples: torch.Tensor) -> list[torch.Tensor]:
    total = [torch.zeros_like(value) for value in served]
    for device in samples:
        with torch.no_grad():
            for mine, value in zip(trainee.parameters(), served, strict=True):
                mine.copy_(value)
        for batch in device:
            optimizer.zero_grad()
            F.cross_entropy(trainee(x[batch]), y[batch]).backward()
            optimizer.step()
        for sum_, mine in zip(total, trainee.parameters(), strict=True):
            sum_ += mine.detach()
    return [sum_ / len(samples) for sum_ in total]


def loss(values: dict[str, torch.Tensor], images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(torch.func.functional_call(trainee, values, (images,)), labels)


def step(values: dict[str, torch.Tensor], images: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
    gradient = torch.func.vmap(torch.func.grad(loss))(values, images, labels)
    return {key: value - work.LEARNING_RATE * gradient[key] for key, value in values.items()}


compiled_step = torch.compile(step, dynamic=False)


def side_by_side(samples: torch.Tensor) -> list[torch.Tensor]:
    names = [key for key, _ in trainee.named_parameters()]
    values = {k: p.expand(len(samples), *p.shape).contiguous() for k, p in zip(names, served, strict=True)}
    with torch.no_grad():
        for m in range(work.STEPS):
            values = compiled_step(values, x[samples[:, m]], y[samples[:, m]])
    return [values[key].mean(0) for key in names]


def judge(at_once: int) -> float:
    with torch.no_grad():
        for mine, value in zip(parameters, served, strict=True):
            mine.copy_(value)
        right = sum(
            (model(x_test[i : i + at_once]).argmax(1) == y_test[i : i + at_once]).sum()
            for i in range(0, work.TEST, at_once)
        )
    return float(right) / work.TEST


train, draw = loop if how == "loop" else side_by_side, np.random.default_rng(0)
pacer.ready("torch", threads=threads, layout=layout, how=how)
while True:
    served = train(torch.from_numpy(work.batches(draw)))
    pacer.round_done(judge(JUDGED_AT_ONCE))
