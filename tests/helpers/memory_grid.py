"""A Flower grid without a network: real messages and a real ClientApp, a simulated clock and scripted delays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity


class JumpingClock:
    """A clock that advances only during `sleep`."""

    def __init__(self) -> None:
        self.time = 0.0
        self.alarms: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        return self.time

    def sleep_until(self, when: float) -> None:
        self.time = max(self.time, when)
        for alarm in [a for a in self.alarms if a[0] <= self.time]:
            self.alarms.remove(alarm)
            alarm[1]()

    def at(self, when: float, action: Callable[[], None]) -> None:
        self.alarms.append((when, action))


@dataclass
class MemoryGrid(Grid):
    """A grid whose nodes are contexts. `latency_s(device, training)` sets the delay of an answer, unless the order does
    (`emulate-latency`); `fault` may corrupt the answer."""

    app: ClientApp
    clock: JumpingClock
    run_config: dict[str, Any]
    latency_s: Callable[[int, int], float]
    fault: Callable[[Message, int, int], list[Message]] = lambda reply, device, training: [reply]
    contexts: dict[int, Context] = field(default_factory=dict)
    mailbox: list[tuple[float, Message]] = field(default_factory=list)
    pushed: int = 0
    lock: Any = field(default_factory=threading.Lock)  # the mailbox is emptied by several threads
    orders: list[tuple[int, int, int]] = field(default_factory=list)  # device, version, training

    def __post_init__(self) -> None:
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 0  # as flwr-serverapp does

    def connect(self, device: int, devices: int, node: int | None = None, **config: Any) -> int:
        node = 1000 + device if node is None else node
        self.contexts[node] = Context(
            run_id=1, node_id=node, state=RecordDict(), run_config=self.run_config,
            node_config={"partition-id": device, "num-partitions": devices, **config},
        )  # fmt: skip
        return node

    def disconnect(self, node: int) -> None:
        del self.contexts[node]

    def set_run(self, run: Any) -> None: ...

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, *args: Any, **kwargs: Any) -> Iterable[Message]:
        raise AssertionError("a blocking call has no place in an asynchronous loop")

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            self.pushed += 1
            message.metadata.__dict__["_message_id"] = f"m{self.pushed}"
            ids.append(f"m{self.pushed}")
            context = self.contexts.get(message.metadata.dst_node_id)
            if context is not None:
                self._work(message, context)
        return ids

    def _work(self, message: Message, context: Context) -> None:
        order = message.content.get("order")
        wait_s = 0.0
        if order is not None:  # what the device would wait for, the post does
            wait_s, order["latency-s"] = float(order["latency-s"]), 0.0
        try:
            reply = self.app(message, context)
        except Exception as error:
            reply = Message(Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=str(error)), reply_to=message)
        if order is None:
            self.mailbox.append((self.clock.time, reply))
            return
        device, training = int(order["device"]), int(order["training"])
        self.orders.append((device, int(order["version"]), training))
        arrival = self.clock.time + (wait_s or self.latency_s(device, training))
        self.mailbox += [(arrival, spoilt) for spoilt in self.fault(reply, device, training)]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        wanted = set(message_ids)
        with self.lock:
            come = [
                entry for entry in self.mailbox
                if entry[0] <= self.clock.time + 1e-9 and entry[1].metadata.reply_to_message_id in wanted
            ]  # fmt: skip
            self.mailbox = [entry for entry in self.mailbox if not any(entry is one for one in come)]
        return [reply for _, reply in come]
