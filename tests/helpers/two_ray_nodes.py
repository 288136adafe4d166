"""A Ray cluster of two nodes on this machine, of which the second is killed as soon as it is at work on a task.

python two_nodes.py WORD... -- WORD...     runs the commands `paota WORD... --ray ADDRESS` on it, each with a new second node
"""

import itertools
import os
import sys
import threading
import time
from pathlib import Path

# A busy machine is slow to start a node; Ray reads these when it is imported.
os.environ |= {"RAY_raylet_start_wait_time_s": "300", "RAY_worker_register_timeout_seconds": "300"}

from ray.cluster_utils import Cluster

from paota.cli import main

TASK = b"ray::_compute_elsewhere"


def at_work_below(raylet: int) -> bool:
    """Return whether a worker of this raylet computes a task, which Ray writes into the process's title."""
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == raylet and TASK in (entry / "cmdline").read_bytes():
                return True
        except (OSError, ValueError, IndexError):
            continue
    return False


def kill_when_at_work(cluster: Cluster, node: object, done: list[str]) -> None:
    (raylet,) = (info.process.pid for info in node.all_processes["raylet"])  # type: ignore[attr-defined]
    while not at_work_below(raylet):
        time.sleep(0.02)
    cluster.remove_node(node, allow_graceful=False)
    done.append("killed")


if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    codes, killed = [], []
    for last, words in itertools.groupby(sys.argv[1:], key=lambda word: word == "--"):
        if not last:
            second = cluster.add_node(num_cpus=1)
            threading.Thread(target=kill_when_at_work, args=(cluster, second, killed), daemon=True).start()
            codes.append(main([*words, "--ray", cluster.address]))
    print(f"nodes killed: {len(killed)}", flush=True)
    cluster.shutdown()
    os._exit(max(codes))
