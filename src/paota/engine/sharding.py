"""Sharding of an event's devices over JAX devices: several processor sockets, GPUs, or machines.

Every JAX device trains its share of the event's devices; the superposition over the air is then a sum over JAX devices,
into which XLA compiles `gain @ payload`. All processes of a cluster run the same program on the same settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, PyTree

from ..base.errors import UserError
from ..training.learner import EncodedData, Learner, LocalUpdates, SampleEvaluation, Samples

AXIS = "devices"
EVERYWHERE = PartitionSpec()
SHARED_OUT = PartitionSpec(AXIS)


def mesh_of_all() -> Mesh | None:
    """Return a mesh of all JAX devices of all processes; None if there is only one."""
    everything = np.array(jax.devices())
    return Mesh(everything, (AXIS,)) if everything.size > 1 else None


def train(
    mesh: Mesh | None, function: Callable[..., LocalUpdates], replicated: tuple[PyTree, ...], by_device: PyTree
) -> LocalUpdates:
    """Return `function(*replicated, by_device)`; each JAX device takes its part of the arrays `by_device` [n, ...]."""
    if mesh is None:
        return function(*replicated, by_device)
    specs = (*[EVERYWHERE] * len(replicated), SHARED_OUT)
    shared = jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=SHARED_OUT, check_vma=False)
    return shared(*replicated, by_device)


def evaluate(mesh: Mesh | None, learner: Learner, model: Float[Array, " d"], samples: EncodedData) -> SampleEvaluation:
    """Return `learner.evaluate` over all samples; each JAX device evaluates a part of them."""
    num_samples = len(samples[1])
    if mesh is None:
        return learner.evaluate(model, samples, 0, num_samples)
    count = -(-num_samples // mesh.size)

    def part(model: jax.Array, x: Samples, y: jax.Array, weight: jax.Array) -> SampleEvaluation:
        evaluation = learner.evaluate(model, (x, y, weight), jax.lax.axis_index(AXIS) * count, count)
        return jax.lax.psum(evaluation, AXIS)

    shared = jax.shard_map(part, mesh=mesh, in_specs=(EVERYWHERE,) * 4, out_specs=EVERYWHERE, check_vma=False)
    return shared(model, *samples)


def interleaved(mesh: Mesh | None, places: int) -> Int[np.ndarray, " n"] | None:
    """Return the order that assigns the event's devices to JAX devices in turn, so that padding is shared evenly."""
    return None if mesh is None else np.arange(places).reshape(-1, mesh.size).T.ravel()


def replicate(mesh: Mesh | None, tree: PyTree) -> PyTree:
    """Copy every array to all JAX devices; every process must hold the same values."""
    return tree if mesh is None else jax.tree.map(lambda leaf: _replicate(mesh, leaf), tree)


def everywhere(mesh: Mesh | None) -> NamedSharding | None:
    """Return the sharding of arrays that every JAX device holds; None if there is only one."""
    return None if mesh is None else NamedSharding(mesh, EVERYWHERE)


def _replicate(mesh: Mesh, leaf: jax.Array | np.ndarray) -> jax.Array:
    everywhere = NamedSharding(mesh, EVERYWHERE)
    if isinstance(leaf, jax.Array):
        if leaf.sharding.is_equivalent_to(everywhere, leaf.ndim):
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(_replicate(mesh, jax.random.key_data(leaf)))
    host = np.asarray(leaf)
    return jax.make_array_from_callback(host.shape, everywhere, lambda index: host[index])


def join_cluster(
    coordinator: str | None = None, num_processes: int | None = None, process_id: int | None = None
) -> int:
    """Join a cluster of processes that share the work. Call it before anything else uses JAX.

    Missing arguments are read from PAOTA_COORDINATOR, PAOTA_NUM_PROCESSES and PAOTA_PROCESS_ID. Without a coordinator
    the process stays alone, and its number is 0.

    Args:
        coordinator: address of process 0, "host:port".
        num_processes: number of processes.
        process_id: number of this process, from 0.

    Returns:
        The number of this process.
    """
    coordinator = coordinator or os.environ.get("PAOTA_COORDINATOR")
    if not coordinator or jax.distributed.is_initialized():
        return jax.process_index() if coordinator else 0
    count = _whole_number("PAOTA_NUM_PROCESSES", num_processes)
    number = _whole_number("PAOTA_PROCESS_ID", process_id)
    if not 0 <= number < count:
        raise UserError(f"PAOTA_PROCESS_ID must be from 0 to PAOTA_NUM_PROCESSES - 1 = {count - 1}, not {number}")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(coordinator, num_processes=count, process_id=number)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"process {number} of {count} cannot reach the other processes at {coordinator}: {error}"
        ) from None
    return number


def _whole_number(name: str, given: int | None) -> int:
    try:
        return int(os.environ[name]) if given is None else given
    except (KeyError, ValueError):
        flag = name.removeprefix("PAOTA_").lower().replace("_", "-")
        raise UserError(
            "a cluster needs --num-processes and --process-id (or PAOTA_NUM_PROCESSES and PAOTA_PROCESS_ID) beside "
            f"the coordinator: --{flag} is not a whole number"
        ) from None
