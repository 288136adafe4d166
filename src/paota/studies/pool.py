"""Jobs in parallel: in this process, in worker processes, or on a Ray cluster.

A job that fails ends only itself. A job whose process dies is tried once more. Every job leaves its files in its own folder,
so a repeated study computes only the missing ones. No worker outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from ..base import files
from ..base.errors import UserError

ReportShare = Callable[[float], None]  # called with the finished share of a job, 0 to 1
CORE_VARIABLES = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")  # XLA reads the first, others their own


class PoolJob(Protocol):
    """Something to compute. It is sent to other processes and machines, so it is a dataclass of plain values."""

    @property
    def key(self) -> str:
        """The name of the job in updates."""

    @property
    def folder(self) -> str:
        """The folder for its files."""

    def compute(self, report: ReportShare) -> None:
        """Compute the job, and report its progress now and then."""


@dataclass(frozen=True)
class Update:
    """News of a job: it `advanced` to a share of its work, is `done`, or `failed` for a reason."""

    key: str
    kind: Literal["advanced", "done", "failed"]
    share: float = 0.0
    reason: str = ""


Watch = Callable[[Update], None]


class Shared:
    """Objects that jobs have in common, by three words: pickled once, and unpickled once in every process.

    Pickles are sent to processes and never read from files.
    """

    def __init__(self, things: Mapping[tuple[str, str, str], object]) -> None:
        self.things = things

    def __reduce__(self) -> tuple[object, ...]:
        return _unpacked, (self.content,)

    @functools.cached_property
    def content(self) -> tuple[tuple[tuple[str, str, str], bytes], ...]:
        """The pickles; a thing that cannot be pickled is a `UserError`."""
        return tuple((words, pickled(thing, *words)) for words, thing in self.things.items())


@functools.lru_cache(maxsize=16)  # so that equal objects are the same, and share compiled programs
def _unpacked(content: tuple[tuple[tuple[str, str, str], bytes], ...]) -> Shared:
    return Shared({words: pickle.loads(one) for words, one in content})


def pickled(thing: object, *words: str) -> bytes:
    """Return the pickle of a thing, also of a class or function of a script or notebook; `words` name it in messages."""
    import cloudpickle  # start-up time

    try:
        return bytes(cloudpickle.dumps(thing))
    except Exception as error:  # any that its own code raises
        why = f"cannot be sent to other processes ({reason_of(error)}): use jobs=1"
        raise UserError(f"{' '.join(words)} {why}") from None


class Pool:
    """Computes jobs. Its processes, or its connection to a cluster, serve further jobs until the `with` block ends.

    Args:
        workers: number of processes; 1 computes everything in this one.
        ray: the address of a Ray cluster to use instead (empty: Ray's default).
    """

    def __init__(self, workers: int, ray: str | None = None) -> None:
        self.count, self.ray = workers, ray
        self._workers: list[_Worker] = []
        self._cluster = contextlib.ExitStack()
        self._connected = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()
        self._cluster.close()

    def run(self, tasks: Sequence[PoolJob], watch: Watch = lambda update: None) -> dict[str, str]:
        """Compute all jobs in their order.

        Args:
            tasks: jobs with different keys.
            watch: called with every update, in this process.

        Returns:
            The reasons of failed jobs, by key; empty if none failed.
        """
        failed = {}

        def watched(update: Update) -> None:
            if update.kind == "failed":
                failed[update.key] = update.reason
            watch(update)

        if self.ray is not None and tasks:
            if not self._connected:
                self._cluster.enter_context(_cluster(self.ray))
                self._connected = True
            _run_on_ray(tasks, watched)
        elif self.count == 1:
            for task in tasks:
                watched(compute(task, watched))
        elif tasks:
            self._run_in_processes(tasks, watched)
        return failed

    def _run_in_processes(self, tasks: Sequence[PoolJob], watch: Watch) -> None:
        count = min(self.count, len(tasks))
        threads = max(1, (os.cpu_count() or 1) // count)
        waiting, died = deque(tasks), set[str]()
        alive = [worker for worker in self._workers if worker.process.is_alive()]
        self._workers = workers = [*alive, *(_start_worker(threads) for _ in range(count - len(alive)))]
        while True:
            for i, worker in enumerate(workers):
                if worker.task is None and waiting:
                    if worker.pipe.closed:
                        workers[i] = worker = _start_worker(threads)
                    worker.submit(waiting.popleft())
            busy = {worker.pipe: worker for worker in workers if worker.task is not None}
            if not busy:
                return
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]  # only connections were waited for
                task, update = worker.task, worker.receive()
                if worker.pipe.closed and task is not None and task.key not in died:
                    died.add(task.key)
                    waiting.append(task)
                else:
                    watch(update)


def run_tasks(
    tasks: Sequence[PoolJob], *, workers: int, ray: str | None = None, watch: Watch = lambda update: None
) -> dict[str, str]:
    """Compute all jobs in a new `Pool`; arguments and result are those of the pool and of its `run`."""
    with Pool(workers, ray) as pool:
        return pool.run(tasks, watch)


def compute(task: PoolJob, watch: Watch) -> Update:
    """Compute one job in this process; return its last update, also if it fails."""
    try:
        task.compute(lambda share: watch(Update(task.key, "advanced", share)))
    except Exception as error:  # the other jobs continue
        return Update(task.key, "failed", reason=reason_of(error))
    return Update(task.key, "done", 1.0)


def reason_of(error: BaseException) -> str:
    """Return an error as one sentence: our own errors as they are, others with their type."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}".rstrip(": ")


@dataclass
class _Worker:
    """A process that computes one job at a time, and the pipe to it."""

    process: BaseProcess
    pipe: Connection
    task: PoolJob | None = None

    def submit(self, task: PoolJob) -> None:
        self.task = task
        with contextlib.suppress(OSError):  # it died just now: the end of the pipe will report that
            self.pipe.send_bytes(pickled(task, task.key))

    def receive(self) -> Update:
        """Return the next update. The end of the pipe means the end of the process and of its job."""
        assert self.task is not None
        try:
            update: Update = self.pipe.recv()
        except (EOFError, OSError):
            update = Update(self.task.key, "failed", reason=_death_of(self.process))
            self.pipe.close()
        if update.kind != "advanced":
            self.task = None
        return update


def _start_worker(threads: int) -> _Worker:
    context = multiprocessing.get_context("spawn")  # a forked JAX hangs
    mine, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs,), daemon=True, name="paota worker")
    with _sigint_blocked(), _environment(dict.fromkeys(CORE_VARIABLES, str(threads))), _without_main():
        process.start()
    theirs.close()  # so that the end of the process is the end of the pipe
    return _Worker(process, mine)


def _work(pipe: Connection) -> None:
    """The main loop of a worker: compute jobs until the pipe closes or the parent dies."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    while True:
        try:
            task: PoolJob = pipe.recv()
        except EOFError:
            return
        pipe.send(compute(task, pipe.send))


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _death_of(process: BaseProcess) -> str:
    process.join(5)
    code = process.exitcode
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"its process was ended by {signal.Signals(-code).name} (out of memory?)"
    return f"its process ended with code {code}"


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block Ctrl-C in processes that start here, which inherit the mask; the parent gets it and ends its workers."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Hide the user's main module from processes that start here, which would import it and so run a script again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for processes that start here: libraries read them when they are loaded."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def require_ray() -> None:
    """Refuse at once if Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise UserError("--ray needs Ray: pip install ray")


@contextlib.contextmanager
def _cluster(address: str) -> Iterator[None]:
    """Connect to a Ray cluster; an empty `address` means that of `RAY_ADDRESS`, else a cluster on this machine."""
    require_ray()
    import ray  # type: ignore[import-not-found]  # optional

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


def _run_on_ray(tasks: Sequence[PoolJob], watch: Watch) -> None:
    """Compute jobs on the cluster to which this process is connected, one core each."""
    import ray  # optional

    remote = ray.remote(num_cpus=1)(_compute_elsewhere)
    submitted = {remote.remote(task): task for task in tasks}
    while submitted:
        (ready, *_), _ = ray.wait(list(submitted), num_returns=1)
        task = submitted.pop(ready)
        try:
            _unpack(ray.get(ready), Path(task.folder))
        except Exception as error:  # the other jobs continue
            cause = getattr(error, "cause", None)
            reason = reason_of(cause if isinstance(cause, Exception) else error)
            watch(Update(task.key, "failed", reason=reason))
        else:
            watch(Update(task.key, "done", 1.0))


def _compute_elsewhere(task: Any) -> dict[str, bytes]:
    """Compute a job on a machine without a shared folder; return the contents of its files by name."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / "task"
        replace(task, folder=str(here)).compute(lambda share: None)
        return {file.name: file.read_bytes() for file in here.iterdir() if file.is_file()}


def _unpack(content: dict[str, bytes], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in sorted(content, key=lambda name: name == "run.json"):  # last: it marks the folder as finished
        with files.atomic(folder / Path(name).name) as stream:
            stream.write(content[name])
