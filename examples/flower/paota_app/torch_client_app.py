"""A device that trains with PyTorch. It speaks with the same server; JAX and PyTorch devices may even be mixed.

The server sends the model as named arrays ("0.bias", "0.weight", "1.bias", ...) and wants the same names back. Any
training will do in between: this one is mini-batch SGD on the paper's network, 784-10-10-10.
"""

from pathlib import Path

import numpy as np
import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import nn

from paota import UserError
from paota.deploy import LocalResult, LocalTask, answer_hello, answer_order, device_data, training_of

APP_FOLDER = Path(__file__).parent.parent

app = ClientApp()


@app.query()
def hello(message: Message, context: Context) -> Message:
    return answer_hello(message, context)


@app.train()
def train(message: Message, context: Context) -> Message:
    return answer_order(message, context, lambda task: train_with_torch(task, context))


def train_with_torch(task: LocalTask, context: Context) -> LocalResult:
    if (beyond := training_of(task, context, APP_FOLDER).beyond_plain_sgd) is not None:
        raise UserError(f"this device trains with plain SGD and does not know {beyond}")
    if task.shift is not None:
        raise UserError("this device trains with plain SGD and shifts no gradients")
    shard = device_data(context, APP_FOLDER)
    x = torch.from_numpy(np.ascontiguousarray(shard.x).astype(np.float32)).flatten(start_dim=1)
    x = x / 255 if shard.x.dtype == np.uint8 else x
    y = torch.from_numpy(shard.y.astype(np.int64))

    network = network_like(task.model)
    optimiser = torch.optim.SGD(network.parameters(), lr=task.learning_rate)
    generator = torch.Generator().manual_seed(task.device * 1_000_003 + task.training)  # a training can be repeated
    losses = []
    for _ in range(task.local_steps):
        batch = torch.randint(len(y), (task.batch_size,), generator=generator)
        loss = nn.functional.cross_entropy(network(x[batch]), y[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    trained = {
        name: p.detach().numpy() for name, p in zip(names_in_order(task.model), network.parameters(), strict=True)
    }
    return LocalResult(model=trained, num_examples=len(y), loss=float(np.mean(losses)))


def network_like(model: dict[str, np.ndarray]) -> nn.Sequential:
    """The multi-layer perceptron whose parameters `model` holds: a linear layer for each weight, ReLU in between."""
    layers: list[nn.Module] = []
    names = names_in_order(model)
    for weight in names[::2]:
        outputs, inputs = model[weight].shape
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    network = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for name, parameter in zip(names, network.parameters(), strict=True):
            parameter.copy_(torch.from_numpy(model[name].copy()))
    return network


def names_in_order(model: dict[str, np.ndarray]) -> list[str]:
    """ "0.weight", "0.bias", "1.weight", ...: PyTorch's order."""
    count = len(model) // 2
    return [f"{layer}.{kind}" for layer in range(count) for kind in ("weight", "bias")]
