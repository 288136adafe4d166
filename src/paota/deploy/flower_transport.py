"""The `Post` of a deployment: orders and answers as Flower messages on a `Grid`."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import httpx
import jax.numpy as jnp
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from jaxtyping import Float

from ..base.errors import one_line
from ..base.types import Json
from ..experiment.experiment import AlgorithmConfig
from ..timing.latency import Latencies
from .transport import Answer, Layout, Order

logger = logging.getLogger(__name__)

ERROR_KINDS = {
    ErrorCode.NODE_UNAVAILABLE: "offline",
    ErrorCode.MESSAGE_UNAVAILABLE: "expired",
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE: "expired",
    ErrorCode.CLIENT_APP_CRASHED: "crashed",
}
STUCK_S = 2.0  # real seconds that one call waits for a pull


class Mailbox:
    """`Grid.pull_messages` without waiting.

    A device that dies while it uploads leaves an announced answer without content, and pulling it takes minutes. Each
    answer is therefore pulled in its own thread, and a slow pull is checked again later.
    """

    def __init__(self, grid: Grid, devices: int) -> None:
        self._grid = grid
        self._threads = ThreadPoolExecutor(max_workers=devices + 4, thread_name_prefix="paota-mailbox")
        self._running: dict[str, Future[list[Message | Exception]]] = {}

    def collect(self, messages: Iterable[str]) -> list[tuple[str, Message | Exception]]:
        """Return the answers to `messages` that have arrived, each with its message, or why Flower cannot read one."""
        wanted = set(messages)
        new = {message: self._threads.submit(self._pull, message) for message in wanted - set(self._running)}
        self._running |= new
        wait(new.values(), timeout=STUCK_S)
        done = [message for message, pull in self._running.items() if pull.done()]
        replies = {message: self._running.pop(message).result() for message in done}
        return [(message, reply) for message in done if message in wanted for reply in replies[message]]

    def _pull(self, message: str) -> list[Message | Exception]:
        try:
            return list(self._grid.pull_messages([message]))
        except httpx.HTTPError as error:
            logger.warning("the SuperLink does not answer: %s", error)
            return []
        except Exception as error:  # a device has chosen the bytes
            return [error]


class FlowerTransport:
    """A `Post` over Flower's Grid. Messages are pushed and pulled; no call blocks for an answer."""

    def __init__(
        self, grid: Grid, layout: Layout, entry: AlgorithmConfig, *, devices: int, ttl_s: float,
        latencies: Latencies | None, time_scale: float, device_of_node: Mapping[int, int] | None = None,
    ) -> None:  # fmt: skip
        self._device_of_node = device_of_node  # by the key with which each node was registered
        self._grid, self._layout, self._devices, self._ttl_s = grid, layout, devices, ttl_s
        self._label, self._training = entry.label, entry.training
        self._latencies, self._time_scale = latencies, time_scale
        self._hellos, self._answers = Mailbox(grid, devices), Mailbox(grid, devices)
        self._asked: dict[str, int] = {}  # hello message -> node
        self._known: set[int] = set()  # nodes that have been asked or have answered
        self._refused: set[int] = set()

    def reachable(self) -> set[int]:
        try:
            return set(self._grid.get_node_ids())
        except httpx.HTTPError as error:
            logger.warning("the SuperLink does not answer: %s", error)
            return set()

    def joined(self) -> dict[int, int]:
        """Ask new nodes for their device and return the replies. Nodes that were absent get the question again."""
        here = self.reachable()
        self._known &= here
        new = sorted(here - self._known)
        hellos = [
            Message(RecordDict(), dst_node_id=node, message_type=MessageType.QUERY, ttl=self._ttl_s) for node in new
        ]
        for node, message in zip(new, self._push(hellos), strict=True):
            if message is not None:
                self._asked[message] = node
                self._known.add(node)
        found = {}
        for message, reply in self._hellos.collect(self._asked):
            if message not in self._asked:
                continue
            node = self._asked.pop(message)
            device = self._device_of(reply, node)
            if device is None:
                self._known.discard(node)  # ask again: it may have been busy or restarted
            else:
                found[node] = device
        return found

    def send(
        self, orders: Sequence[Order], model: Float[np.ndarray, " d"], shifts: Float[np.ndarray, "n d"] | None = None
    ) -> list[str | None]:
        record = self._record(model)  # one for all messages: Flower stores and sends equal objects once
        messages = []
        for i, order in enumerate(orders):
            content = RecordDict({"model": record, "order": self._order(order)})
            if shifts is not None:
                content["shift"] = self._record(shifts[i])
            messages.append(
                Message(
                    content, dst_node_id=order.node, message_type=MessageType.TRAIN, ttl=self._ttl_s,
                    group_id=str(order.version),
                )
            )  # fmt: skip
        return self._push(messages)

    def _record(self, vector: Float[np.ndarray, " d"]) -> ArrayRecord:
        return ArrayRecord({name: Array(np.ascontiguousarray(a)) for name, a in self._layout.split(vector).items()})

    def fetch(self, messages: Collection[str]) -> list[Answer]:
        return [_open(message, reply) for message, reply in self._answers.collect(messages)]

    def _order(self, order: Order) -> ConfigRecord:
        """Return the order as `LocalTask` reads it."""
        latency_s = 0.0
        if self._latencies is not None:
            latency_s = float(self._latencies(np.array([order.device]), np.array([order.training]))[0])
        return ConfigRecord(
            {
                "label": self._label, "device": order.device, "version": order.version, "training": order.training,
                "local-steps": self._training.local_steps, "batch-size": self._training.batch_size,
                "learning-rate": float(self._training.rate(jnp.asarray(order.version))),
                "latency-s": latency_s * self._time_scale,
            }
        )  # fmt: skip

    def _device_of(self, reply: Message | Exception, node: int) -> int | None:
        """Return the device number in a hello, None if there is none. The reason is logged once per node."""
        try:
            if isinstance(reply, Exception):
                raise reply
            if reply.has_error():
                problem = reply.error.reason
            else:
                hello: Mapping[str, Json] = reply.content.config_records["device"]
                device, partitions = hello["partition-id"], hello["num-partitions"]
                registered = device if self._device_of_node is None else self._device_of_node.get(node)
                if isinstance(device, int) and partitions == self._devices and device == registered:
                    return device
                problem = f"it is partition {device} of {partitions}, but data.devices is {self._devices}"
                if partitions == self._devices:
                    whose = "no device's" if registered is None else f"device {registered}'s"
                    problem = f"it says that it is device {device}, and its key is {whose}"
        except Exception as error:  # untrusted bytes
            problem = f"its hello cannot be read ({error!r})"
        if node not in self._refused:
            self._refused.add(node)
            logger.warning("node %d does not take part yet: %s", node, one_line(problem))
        return None

    def _push(self, messages: Sequence[Message]) -> list[str | None]:
        if not messages:
            return []
        try:
            ids: list[str | None] = [str(i) if i else None for i in self._grid.push_messages(messages)]
        except httpx.HTTPError as error:
            logger.warning("%d messages could not be sent: %s", len(messages), error)
            ids = []
        return ids if len(ids) == len(messages) else [None] * len(messages)


def _open(message: str, reply: Message | Exception) -> Answer:
    """Return the content of a reply. A reply that cannot be read is an error of its device."""
    try:
        if isinstance(reply, Exception):
            raise reply
        if reply.has_error():
            kind = ERROR_KINDS.get(reply.error.code, "error")
            return Answer(message=message, error=str(reply.error.reason or reply.error.code), error_kind=kind)
        arrays = {name: array.numpy() for name, array in reply.content.array_records["model"].items()}
        return Answer(message=message, arrays=arrays, numbers=dict(reply.content.metric_records["metrics"]))
    except Exception as error:  # untrusted bytes: NumPy and Flower raise many kinds of exceptions
        return Answer(message=message, error=f"it cannot be read ({error!r})", error_kind="unreadable")
