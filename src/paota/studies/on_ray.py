"""Tasks on a Ray cluster: one core each. The files of a task come back to the machine that asked."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..base import files
from ..base.errors import UserError
from .pool import CORE_VARIABLES, PoolJob, Update, Watch, reason_of


def require_ray() -> None:
    """Refuse at once if Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise UserError("--ray needs Ray: pip install ray")


@contextlib.contextmanager
def cluster(address: str) -> Iterator[None]:
    """Connected to a cluster; `address` as Ray understands it, empty: that of `RAY_ADDRESS`, else one on this machine."""
    require_ray()
    import ray  # type: ignore[import-not-found]

    try:
        ray.init(
            address=address or None,
            log_to_driver=False,
            include_dashboard=None if address else False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": dict.fromkeys(CORE_VARIABLES, "1")},
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise UserError(f"--ray cannot reach a cluster at '{address or 'this machine'}': {reason_of(error)}") from None
    try:
        yield
    finally:
        ray.shutdown()


def run_on_ray(tasks: Sequence[PoolJob], watch: Watch) -> None:
    """Compute tasks on the cluster that this process is connected to."""
    import ray

    remote: Any = ray.remote(num_cpus=1)(_compute_elsewhere)
    submitted = {remote.remote(task): task for task in tasks}
    while submitted:
        (ready, *_), _ = ray.wait(list(submitted), num_returns=1)
        task = submitted.pop(ready)
        try:
            _unpack(ray.get(ready), Path(task.folder))
        except Exception as error:  # the other tasks must not suffer
            cause = getattr(error, "cause", None)
            reason = reason_of(cause if isinstance(cause, Exception) else error)
            watch(Update(task.key, "failed", reason=reason))
        else:
            watch(Update(task.key, "done", 1.0))


def _compute_elsewhere(task: Any) -> dict[str, bytes]:
    """Compute a task where no folder is shared: in a temporary one, whose files are handed back by name."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / "task"
        replace(task, folder=str(here)).compute(lambda share: None)
        return {file.name: file.read_bytes() for file in here.iterdir() if file.is_file()}


def _unpack(content: dict[str, bytes], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in sorted(content, key=lambda name: name == "run.json"):  # last: it says that the folder is whole
        with files.atomic(folder / Path(name).name) as stream:
            stream.write(content[name])
