"""Work in threads that can be left behind, while the thread that asked for it listens, and answers Ctrl-C."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from ..base.errors import Interrupted

T = TypeVar("T")
NAME = "paota computing"  # of the threads
LOOK_S = 0.05  # between two looks of the waiting thread at whether to stop
GRACE_S = 1.0  # for an engine call to end once somebody has asked to stop; then it is left behind


class UnitThreads:
    """Threads that compute for the one that made them: it `attend`s, and calls for them what only it should call.

    Compiling and long engine calls cannot be broken off. They are left to end on their own, and what they give is dropped.
    """

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...], Future[Any]]] = queue.SimpleQueue()
        self.closing = threading.Event()  # somebody asked to stop, or something failed
        self.closed = False  # nobody attends any more
        self._maker = threading.current_thread()

    def start(self, jobs: Sequence[Callable[[], T]], threads: int) -> list[Future[T]]:
        """Begin jobs, the first ones first, so many at a time; each gives a future."""
        waiting: queue.SimpleQueue[tuple[Callable[[], T], Future[T]]] = queue.SimpleQueue()
        futures: list[Future[T]] = []
        for job in jobs:
            futures.append(Future())
            waiting.put((job, futures[-1]))

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
                self._requests.put((bool, (), Future()))  # wakes the attending thread

        for _ in range(min(threads, len(jobs))):
            threading.Thread(target=work, name=NAME, daemon=True).start()
        return futures

    def ask(self, function: Callable[..., T], *arguments: Any) -> T:
        """Have the attending thread call `function`, and wait for what it returns or raises."""
        if threading.current_thread() is self._maker:  # it attends nobody while it asks
            return function(*arguments)
        answer: Future[T] = Future()
        self._requests.put((function, arguments, answer))
        while not self.closed:
            try:
                return answer.result(timeout=GRACE_S)
            except TimeoutError:
                if answer.done():  # the function's own
                    raise
        raise Interrupted

    def attend(self, futures: Sequence[Future[Any]], stop: Callable[[], bool]) -> bool:
        """Answer requests until all is done: True; or until `GRACE_S` after somebody asked to stop, or after a failure."""
        leave_at: float | None = None
        while not all(future.done() for future in futures):
            if leave_at is None and (self.closing.is_set() or stop()):
                self.closing.set()
                leave_at = time.monotonic() + GRACE_S
            if leave_at is not None and time.monotonic() > leave_at:
                return False
            self._answer(LOOK_S)
        return True

    def _answer(self, within_s: float) -> None:
        try:
            function, arguments, answer = self._requests.get(timeout=within_s)
        except queue.Empty:
            return
        try:
            answer.set_result(function(*arguments))
        except Exception as error:
            answer.set_exception(error)

    def close(self) -> None:
        """Whoever still computes is left behind, and told when it asks or looks."""
        self.closed = True
        self.closing.set()


def anybody_left() -> bool:
    """Whether some thread still computes for a crew that has been closed, or will be."""
    return any(thread.name == NAME and thread.is_alive() for thread in threading.enumerate())
