"""Computing points: in this process, or in processes of their own that may die without harm to the others."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

from ..errors import UserError

TELL_EVERY_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Job:
    """One point to compute, in plain values: it travels to other processes and machines."""

    index: int
    experiment: dict[str, Any]
    base: str
    seeds: int
    folder: str
    plugins: tuple[str, ...] = ()  # Python files that register what the experiment names


@dataclass(frozen=True)
class News:
    """What happened to a point: it `advanced` to a share of its rounds, is `done`, or `failed` for a reason."""

    index: int
    kind: Literal["advanced", "done", "failed"]
    share: float = 0.0
    why: str = ""


class Teller:
    """The simulator's progress as a share of all rounds of a point, told now and then."""

    def __init__(self, total: int, tell: Any) -> None:
        self._total, self._tell = max(total, 1), tell
        self._last = time.monotonic()
        self._done: dict[tuple[str, int], int] = {}

    def compiling(self, label: str) -> None: ...

    def compiled(self, label: str, seconds: float) -> None: ...

    def advanced(self, label: str, seed: int, round: int, rounds: int, accuracy: float) -> None:
        self._done[label, seed] = round
        if time.monotonic() - self._last >= TELL_EVERY_S:
            self._last = time.monotonic()
            self._tell(sum(self._done.values()) / self._total)

    def finished(self, trajectory: Any) -> None:
        self._done[trajectory.label, trajectory.seed] = len(trajectory.metrics["round"]) - 1


def compute(job: Job, tell: Any = lambda share: None) -> None:
    """Run one point and leave its run folder behind; a run that was cut short goes on from its checkpoints."""
    from .. import simulate
    from ..experiment import Experiment
    from ..plugins import load_plugin
    from ..runs import folder as run_folder
    from ..runs.checkpoint import Checkpoints

    for file in job.plugins:
        load_plugin(file)
    plan = simulate.plan(Experiment.from_dict(job.experiment, base=Path(job.base)), seeds=job.seeds)
    folder = Path(job.folder)
    folder.mkdir(exist_ok=True)
    checkpoints = Checkpoints(folder / run_folder.CHECKPOINTS, simulate.identity(plan))
    total = sum(len(timeline) for timeline in plan.timelines.values())
    result = simulate.execute(plan, progress=Teller(total, tell), checkpoints=checkpoints)
    run_folder.write_folder(result, folder, report=False)
    run_folder.remove_leftovers(folder)


def reason(error: BaseException) -> str:
    """A sentence for people: our own errors as they are, others with their kind."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}".rstrip(": ")


def in_this_process(jobs: Sequence[Job]) -> Iterator[News]:
    for job in jobs:
        try:
            compute(job)
        except Exception as error:  # whatever it is, the other points must not suffer
            yield News(job.index, "failed", why=reason(error))
        else:
            yield News(job.index, "done", share=1.0)


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    job: Job | None = field(default=None)


def in_processes(jobs: Sequence[Job], workers: int) -> Iterator[News]:
    """Each worker gets one job at a time. One that dies costs its job, and is replaced."""
    context = multiprocessing.get_context("spawn")  # a forked JAX hangs
    workers = min(workers, len(jobs))
    threads = max(1, (os.cpu_count() or 1) // workers)
    waiting = list(reversed(jobs))
    crew = [_hire(context, threads) for _ in range(workers)]
    try:
        for worker in crew:
            _give(worker, waiting.pop())
        while busy := [worker for worker in crew if worker.job]:
            for ready in wait([worker.pipe for worker in busy]):
                worker = next(worker for worker in busy if worker.pipe is ready)
                assert worker.job is not None
                try:
                    news = worker.pipe.recv()
                except (EOFError, OSError):
                    news = News(worker.job.index, "failed", why=_death(worker.process))
                    worker.pipe.close()
                    crew.remove(worker)
                    if waiting:
                        crew.append(_hire(context, threads))
                        _give(crew[-1], waiting.pop())
                else:
                    if news.kind != "advanced":
                        worker.job = None
                        if waiting:
                            _give(worker, waiting.pop())
                yield news
    finally:
        for worker in crew:
            worker.process.terminate()
        for worker in crew:
            worker.process.join()
            worker.pipe.close()


def _hire(context: Any, threads: int) -> _Worker:
    mine, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True, name="paota sweep worker")
    with _ctrl_c_held(), _environment(threads):
        process.start()
    theirs.close()  # so that the end of the process is the end of the pipe
    return _Worker(process, mine)


def _give(worker: _Worker, job: Job) -> None:
    worker.job = job
    with contextlib.suppress(OSError):  # it died just now: the pipe's end will say so
        worker.pipe.send(job)


def _death(process: BaseProcess) -> str:
    process.join(5)
    code = process.exitcode
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"its process was ended by {signal.Signals(-code).name} (out of memory?)"
    return f"its process ended with code {code}"


def _serve(pipe: Connection) -> None:
    """The life of a worker: jobs in, news out, until the pipe closes. It does not outlive its parent."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    while True:
        try:
            job: Job = pipe.recv()
        except EOFError:
            return
        try:
            compute(job, lambda share, index=job.index: pipe.send(News(index, "advanced", share)))
            news = News(job.index, "done", 1.0)
        except Exception as error:  # whatever it is, the other points must not suffer
            news = News(job.index, "failed", why=reason(error))
        pipe.send(news)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextlib.contextmanager
def _ctrl_c_held() -> Iterator[None]:
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
def _environment(threads: int) -> Iterator[None]:
    """A worker's share of the cores, said before it starts: XLA reads `NPROC`, others their own variables."""
    wanted = dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
