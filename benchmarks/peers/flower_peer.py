"""Flower's simulation engine: its FedAvg, one client app for each core, training by a PyTorch loop."""

import logging
import os
import sys
from pathlib import Path

# The client apps run in processes of their own, which must find their module and the data.
os.environ["PEER_DATA"] = sys.argv[1]
os.environ["PYTHONPATH"] = str(Path(__file__).parent)
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import torch
from flower_client import client_app, here
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from protocol import Pacer, he_normal

server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context) -> None:
    work, _, _, model, _, _ = here()
    x_test, y_test = torch.from_numpy(work.x_test), torch.from_numpy(work.y_test)
    values = [torch.from_numpy(a) for layer in he_normal(work.widths) for a in layer]
    model.load_state_dict(dict(zip(model.state_dict(), values, strict=True)))

    def judge(round_: int, arrays: ArrayRecord) -> MetricRecord:
        if round_ == 0:
            pacer.ready("flwr", "ray", "torch", client_processes=os.cpu_count(), threads_each=1)
            return MetricRecord({"accuracy": 0.0})
        model.load_state_dict(arrays.to_torch_state_dict())
        with torch.no_grad():
            accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
        pacer.round_done(accuracy)
        return MetricRecord({"accuracy": accuracy})

    strategy = FedAvg(
        fraction_train=work.per_round / work.devices, fraction_evaluate=0.0, min_available_nodes=work.devices
    )
    strategy.start(
        grid=grid, initial_arrays=ArrayRecord(model.state_dict()), num_rounds=10**6, train_config=ConfigRecord({}),
        evaluate_fn=judge,
    )  # fmt: skip


if __name__ == "__main__":
    pacer = Pacer()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=100,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"include_dashboard": False, "log_to_driver": False, "num_cpus": os.cpu_count()},
        },
    )
