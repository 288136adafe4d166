"""Points on a Ray cluster: one task each, one core each. The files of a point come back to the machine that asked."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..runs import files
from .work import Job, News, compute, reason

ONE_CORE = dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def require_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        raise UserError("--ray needs Ray: pip install ray")


def on_ray(jobs: Sequence[Job], address: str) -> Iterator[News]:
    """`address` as Ray understands it; empty: the cluster of `RAY_ADDRESS`, else one on this machine."""
    require_ray()
    import ray  # type: ignore[import-not-found]

    try:
        ray.init(
            address=address or None,
            log_to_driver=False,
            include_dashboard=None if address else False,
            logging_level="error",
            runtime_env={"env_vars": ONE_CORE},
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise UserError(f"--ray cannot reach a cluster at '{address or 'this machine'}': {reason(error)}") from None
    try:
        task: Any = ray.remote(num_cpus=1)(compute_elsewhere)
        asked = {task.remote(job): job for job in jobs}
        while asked:
            (ready, *_), _ = ray.wait(list(asked), num_returns=1)
            job = asked.pop(ready)
            try:
                _unpack(ray.get(ready), Path(job.folder))
            except Exception as error:  # whatever it is, the other points must not suffer
                cause = getattr(error, "cause", None)
                yield News(job.index, "failed", why=reason(cause if isinstance(cause, Exception) else error))
            else:
                yield News(job.index, "done", share=1.0)
    finally:
        ray.shutdown()


def compute_elsewhere(job: Job) -> dict[str, bytes]:
    """Compute a point where no folder is shared: in a temporary one, whose files are handed back."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / "point"
        compute(replace(job, folder=str(here)))
        return {file.name: file.read_bytes() for file in here.iterdir() if file.is_file()}


def _unpack(content: dict[str, bytes], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in sorted(content, key=lambda name: name == "run.json"):  # last: it says that the folder is whole
        with files.atomic(folder / Path(name).name) as stream:
            stream.write(content[name])
