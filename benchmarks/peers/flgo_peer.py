"""FLGo: its FedAvg on a custom task, one client after the other."""

import os
import sys
import tempfile
from pathlib import Path

import no_torchvision  # noqa: F401  before anything that imports it

os.environ["PEER_DATA"] = str(Path(sys.argv[1]).resolve())
here = Path(__file__).parent.resolve()
sys.path.insert(0, str(here))
folder = tempfile.mkdtemp(prefix="flgo-")  # FLGo finds its tasks below the current folder
os.chdir(folder)
sys.path.insert(0, folder)
sys.argv = sys.argv[:1]

import flgo  # noqa: E402
import torch  # noqa: E402
from flgo.algorithm import fedavg  # noqa: E402
from flgo.experiment.logger import BasicLogger  # noqa: E402
from protocol import Pacer, load_work  # noqa: E402

pacer, work = Pacer(), load_work(os.environ["PEER_DATA"])
x_test, y_test = torch.from_numpy(work.x_test), torch.from_numpy(work.y_test)


class Judge(BasicLogger):
    begun = False

    def log_once(self, *args, **kwargs):
        if not self.begun:  # FLGo judges the initial model too
            self.begun = True
            pacer.ready("flgo", "torch", threads=1)
            return
        with torch.no_grad():
            accuracy = (self.coordinator.model(x_test).argmax(1) == y_test).float().mean().item()
        pacer.round_done(accuracy)


task = flgo.gen_direct_task_from_file("task", str(here / "flgo_task.py"), ".")
runner = flgo.init(
    task,
    fedavg,
    option={
        "num_rounds": 10**9, "proportion": work.per_round / work.devices, "sample": "uniform", "aggregate": "uniform",
        "num_steps": work.steps, "batch_size": work.batch, "learning_rate": work.learning_rate, "lr_scheduler": -1,
        "train_holdout": 0.0, "test_holdout": 0.0, "no_log_console": True, "no_tqdm": True, "torch_num_threads": 1,
    },
    Logger=Judge,
)  # fmt: skip
runner.run()
