"""Tasks side by side: in this process, in processes of their own, or on a Ray cluster.

A task that fails ends nothing but itself; one whose process dies is tried once more. What a task has finished lies in its
folder, so that the same tasks can be asked for again, and only the missing ones need computing. No worker outlives the process
that started it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Literal, Protocol, Self

from ..base.errors import UserError

ReportShare = Callable[[float], None]  # called with the share of a task that is done, 0 to 1
CORE_VARIABLES = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")  # XLA reads the first, others their own


class PoolJob(Protocol):
    """Something to compute. It travels to other processes and machines, so it is made of plain values."""

    @property
    def key(self) -> str:
        """By which updates name it."""

    @property
    def folder(self) -> str:
        """Where it leaves its files."""

    def compute(self, report: ReportShare) -> None:
        """Do it, and say now and then how far it is."""


@dataclass(frozen=True)
class Update:
    """What happened to a task: it `advanced` to a share of its work, is `done`, or `failed` for a reason."""

    key: str
    kind: Literal["advanced", "done", "failed"]
    share: float = 0.0
    reason: str = ""


Watch = Callable[[Update], None]


class Pool:
    """Where tasks are computed. Its processes, or its cluster, stay for the next tasks until it is left.

    Args:
        workers: processes; 1 computes everything in this one.
        ray: the address of a Ray cluster to be used instead (empty: Ray's default).
    """

    def __init__(self, workers: int, ray: str | None = None) -> None:
        self.count, self.ray = workers, ray
        self._workers: list[_Worker] = []
        self._cluster = contextlib.ExitStack()
        self._cluster_reached = False

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
        """Compute all tasks, the first ones first.

        Args:
            tasks: with different keys.
            watch: is called with every update, in this process.

        Returns:
            Why tasks failed, by key; empty if none did.
        """
        failed = {}

        def watched(update: Update) -> None:
            if update.kind == "failed":
                failed[update.key] = update.reason
            watch(update)

        if self.ray is not None and tasks:
            from .on_ray import cluster, run_on_ray

            if not self._cluster_reached:
                self._cluster.enter_context(cluster(self.ray))
                self._cluster_reached = True
            run_on_ray(tasks, watched)
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
    """Compute all tasks in a `Pool` of their own; arguments and result are those of the pool and of its `run`."""
    with Pool(workers, ray) as pool:
        return pool.run(tasks, watch)


def compute(task: PoolJob, watch: Watch) -> Update:
    """Compute one task here; returns how it ended, whatever happened."""
    try:
        task.compute(lambda share: watch(Update(task.key, "advanced", share)))
    except Exception as error:  # the other tasks must not suffer
        return Update(task.key, "failed", reason=reason_of(error))
    return Update(task.key, "done", 1.0)


def reason_of(error: BaseException) -> str:
    """A sentence for people: our own errors as they are, others with their kind."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}".rstrip(": ")


@dataclass
class _Worker:
    """A process that computes one task at a time, and the pipe to it."""

    process: BaseProcess
    pipe: Connection
    task: PoolJob | None = None

    def submit(self, task: PoolJob) -> None:
        self.task = task
        with contextlib.suppress(OSError):  # it died just now: the pipe's end will say so
            self.pipe.send(task)

    def receive(self) -> Update:
        """The next update. The end of the pipe is the end of the process, and of its task."""
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
    with _sigint_blocked(), _environment(dict.fromkeys(CORE_VARIABLES, str(threads))):
        process.start()
    theirs.close()  # so that the end of the process is the end of the pipe
    return _Worker(process, mine)


def _work(pipe: Connection) -> None:
    """The life of a worker: tasks in, updates out, until the pipe closes or the parent dies."""
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
    """Ctrl-C is for the parent, which then ends its workers: a process inherits what is blocked when it starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """A worker's share of the cores is said before it starts: libraries read it when they are loaded."""
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
