"""Threads that compute and can be abandoned, while the thread that started them serves calls and answers Ctrl-C."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

from ..base.errors import Interrupted

P = ParamSpec("P")
T = TypeVar("T")
NAME = "paota computing"  # of the threads
POLL_S = 0.05  # between two checks of the waiting thread for a stop
GRACE_S = 1.0  # for an engine call to end after a stop; then its thread is abandoned


class UnitThreads:
    """Threads that compute for the thread that made them. That thread `wait`s, and executes their `call`s.

    Compiling and long engine calls cannot be interrupted. Abandoned threads end on their own, without a result.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.closing = threading.Event()  # after a stop or a failure
        self.closed = False  # the owner does not wait any more
        self._owner = threading.current_thread()

    def start(self, jobs: Sequence[Callable[[], T]], threads: int) -> list[Future[T]]:
        """Start jobs in order, at most `threads` at a time; return a future for each."""
        futures: list[Future[T]] = [Future() for _ in jobs]
        waiting: queue.SimpleQueue[tuple[Callable[[], T], Future[T]]] = queue.SimpleQueue()
        for pair in zip(jobs, futures, strict=True):
            waiting.put(pair)

        def work() -> None:
            while True:
                try:
                    job, future = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    future.set_result(job())
                except BaseException as error:
                    self.closing.set()
                    future.set_exception(error)
                self._calls.put(lambda: None)  # wakes the owner

        for _ in range(min(threads, len(jobs))):
            threading.Thread(target=work, name=NAME, daemon=True).start()
        return futures

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Let the owner call `function`; wait for its result or exception."""
        if threading.current_thread() is self._owner:
            return function(*args, **kwargs)
        answer: Future[T] = Future()

        def execute() -> None:
            try:
                answer.set_result(function(*args, **kwargs))
            except Exception as error:
                answer.set_exception(error)

        self._calls.put(execute)
        while not self.closed:
            try:
                return answer.result(timeout=GRACE_S)
            except TimeoutError:
                if answer.done():  # raised by the function itself
                    raise
        raise Interrupted

    def wait(self, futures: Sequence[Future[T]], stop: Callable[[], bool]) -> bool:
        """Execute calls until all futures are done. Return False if some are not, `GRACE_S` after a stop or a failure."""
        leave_at: float | None = None
        while not all(future.done() for future in futures):
            if leave_at is None and (self.closing.is_set() or stop()):
                self.closing.set()
                leave_at = time.monotonic() + GRACE_S
            if leave_at is not None and time.monotonic() > leave_at:
                return False
            try:
                execute = self._calls.get(timeout=POLL_S)
            except queue.Empty:
                continue
            execute()
        return True

    def close(self) -> None:
        """Abandon all threads that still compute; they end at their next call."""
        self.closed = True
        self.closing.set()


def any_running() -> bool:
    """Return True if a thread still computes, also an abandoned one."""
    return any(thread.name == NAME and thread.is_alive() for thread in threading.enumerate())
