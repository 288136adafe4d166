"""The client app of `flower_peer.py`: a separate module, because Flower's actors import it in their own processes."""

import functools
import os

import numpy as np
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from protocol import load_work
from torch import nn

client_app = ClientApp()


@functools.cache
def here():
    """Return what a process loads once: the data, a model, an optimiser."""
    torch.set_num_threads(1)
    work = load_work(os.environ["PEER_DATA"])
    widths = work.widths
    model = nn.Sequential(
        nn.Linear(widths[0], widths[1]),
        nn.ReLU(),
        nn.Linear(widths[1], widths[2]),
        nn.ReLU(),
        nn.Linear(widths[2], widths[3]),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=work.learning_rate)
    return (
        work,
        torch.from_numpy(work.x),
        torch.from_numpy(work.y),
        model,
        optimizer,
        np.random.default_rng(os.getpid()),
    )


@client_app.train()
def train(message: Message, context):
    work, x, y, model, optimizer, rng = here()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    mine = work.indices[int(context.node_config["partition-id"])]
    loss_of = nn.CrossEntropyLoss()
    for batch in torch.from_numpy(mine[rng.integers(len(mine), size=(work.steps, work.batch))]):
        optimizer.zero_grad()
        loss_of(model(x[batch]), y[batch]).backward()
        optimizer.step()
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": 1})})
    return Message(content=content, reply_to=message)
