"""Evaluate a function of tall matrices [n, d] block by block of rows, without ever holding one of them.

A million devices' models do not fit into memory, yet an algorithm file reads as if they did: `jnp.linalg.norm(update,
axis=1)`, `update @ step`, `gain @ payload`. So the algorithm is traced once, and its operations are sorted:

- on rows of tall matrices (any elementwise operation): done for a block of rows at a time, never stored;
- from tall to small, by rows (norms, products with a vector [d]) or over rows (sums over devices): done in a pass;
- among small arrays ([n], [d], scalars; say, the power control): done as they are, between two passes.

Each pass asks for every block once more: PAOTA needs two (similarities and norms, then the superposition), an average
with known weights one. As many blocks as the caller has memory for are kept between passes. What fits none of these
(sorting the models of devices, say) is refused in a clear sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal

from ..errors import UserError

ELEMENTWISE = frozenset(
    """abs add and atan2 ceil clamp convert_element_type copy copy_p cos div eq erf exp exp2 expm1 floor ge gt imag
    integer_pow is_finite le log log1p logistic lt max min mul ne neg not or pow real rem round rsqrt select_n sign sin
    sqrt square stop_gradient sub tan tanh xor""".split()  # noqa: SIM905
)
CALLS = frozenset(["pjit", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call", "checkpoint"])
OVER_ROWS = {  # how the results of two blocks become one, and what the first is combined with
    "reduce_sum": (jnp.add, lambda kind: 0),
    "reduce_max": (jnp.maximum, lambda kind: -jnp.inf if jnp.issubdtype(kind, jnp.floating) else jnp.iinfo(kind).min),
    "reduce_min": (jnp.minimum, lambda kind: jnp.inf if jnp.issubdtype(kind, jnp.floating) else jnp.iinfo(kind).max),
    "reduce_and": (jnp.logical_and, lambda kind: True),
    "reduce_or": (jnp.logical_or, lambda kind: False),
    "dot_general": (jnp.add, lambda kind: 0),
}


@dataclass(eq=False)
class Value:
    """One intermediate result; a tall one has no array, for it never exists as a whole."""

    shape: tuple[int, ...]
    dtype: Any
    tall: bool = False
    array: Any = None

    @property
    def known(self) -> bool:
        return self.array is not None


@dataclass(eq=False)
class Operation:
    primitive: Any
    params: dict[str, Any]
    inputs: list[Value]
    outputs: list[Value]
    done: bool = field(default=False)

    @property
    def tall(self) -> bool:
        return any(value.tall for value in (*self.inputs, *self.outputs))

    def run(self, inputs: Sequence[Any], params: dict[str, Any] | None = None) -> list[Any]:
        result = self.primitive.bind(*inputs, **(self.params if params is None else params))
        return list(result) if self.primitive.multiple_results else [result]


class Memory(NamedTuple):
    """What of a block is worth keeping for the next pass, and how to get the block back from it."""

    blocks: int  # how many are kept, the first ones
    keep: Callable[[Sequence[Any]], tuple[Any, ...]]  # of a block's arrays
    restore: Callable[[Any, tuple[Any, ...]], Sequence[Any]]  # from its first row's number and what was kept


FORGET = Memory(0, lambda values: (), lambda first, kept: ())


def in_blocks(
    function: Callable[..., Any],
    source: Callable[[Any], Sequence[Any]],
    *,
    rows: int,
    block: int,
    used: Any = None,
    memory: Memory = FORGET,
) -> Any:
    """`function(*tall)` for tall inputs [rows, ...] of which `source(first)` gives the rows first..first+block-1.

    Rows from `used` on (a number known only at run time) may be left out; what is said of them means nothing.
    """
    if rows % block:
        raise ValueError(f"{rows} rows are not whole blocks of {block}")
    blocks = jax.eval_shape(source, jnp.int32(0))
    tall = [jax.ShapeDtypeStruct((rows, *b.shape[1:]), b.dtype) for b in blocks]
    closed, out_shape = jax.make_jaxpr(function, return_shape=True)(*tall)
    sources = [Value(t.shape, t.dtype, tall=True) for t in tall]
    plan = _Plan(rows, block, width=max(math.prod(t.shape[1:]) for t in tall), used=used, memory=memory)
    outputs = plan.inline(closed, sources)
    while plan.small_steps() or plan.one_pass(source, sources):
        pass
    for value in outputs:
        if not value.known:
            raise UserError("this algorithm keeps a whole matrix [devices, parameters]; use fewer devices an event")
    return jax.tree.unflatten(jax.tree.structure(out_shape), [value.array for value in outputs])


class _Plan:
    def __init__(self, rows: int, block: int, width: int, used: Any, memory: Memory) -> None:
        self.rows, self.block, self.width = rows, block, width
        self.operations: list[Operation] = []
        self.memory = memory._replace(blocks=min(memory.blocks, rows // block))
        self.kept: tuple[Any, ...] | None = None  # filled by the first pass
        blocks = rows // block if used is None else (used + block - 1) // block
        self.ends = jnp.minimum(blocks, self.memory.blocks), blocks

    def inline(self, closed: ClosedJaxpr, inputs: list[Value]) -> list[Value]:
        """Append the operations of a traced function, calls inside it unfolded, and return its results."""
        jaxpr = closed.jaxpr
        values = dict(zip(jaxpr.invars, inputs, strict=True))
        values.update({v: _known(c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)})

        def read(atom: Any) -> Value:
            return _known(atom.val) if isinstance(atom, Literal) else values[atom]

        for equation in jaxpr.eqns:
            arguments = [read(atom) for atom in equation.invars]
            if (inner := _called(equation)) is not None:
                results = self.inline(inner, arguments)
            else:
                results = [Value(v.aval.shape, v.aval.dtype) for v in equation.outvars]
                tainted = any(value.tall for value in arguments)
                for value in results:
                    value.tall = self._is_tall(value.shape, tainted)
                self.operations.append(Operation(equation.primitive, equation.params, arguments, results))
            values.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _is_tall(self, shape: tuple[int, ...], tainted: bool) -> bool:
        """A matrix with a row for each device; one made from small arrays only if it is as large as the tall ones."""
        by_rows = len(shape) >= 2 and shape[0] == self.rows
        return by_rows and (tainted or math.prod(shape[1:]) >= max(self.width, 2))

    def small_steps(self) -> bool:
        """Do everything that is possible without another pass; whether there was anything."""
        progress = False
        for operation in self.operations:
            if not operation.done and not operation.tall and all(value.known for value in operation.inputs):
                for value, array in zip(
                    operation.outputs, operation.run([v.array for v in operation.inputs]), strict=True
                ):
                    value.array = array
                operation.done = progress = True
        return progress

    def one_pass(self, source: Callable[[Any], Sequence[Any]], sources: list[Value]) -> bool:
        """Go through all blocks once and finish every reduction that is possible by now; whether there was any."""
        rowwise: list[Operation] = []
        reductions: list[Operation] = []
        available = set(map(id, sources))
        for operation in self.operations:
            if operation.done or not operation.tall:
                continue
            if all(id(v) in available if v.tall else v.known for v in operation.inputs):
                tall_results = [value.tall for value in operation.outputs]
                if all(tall_results):
                    rowwise.append(operation)
                    available.update(map(id, operation.outputs))
                else:
                    reductions.append(operation)
        if not reductions:
            return False
        combine = [self._combination(operation) for operation in reductions]

        def reduce(first: Any, values: Sequence[Any], totals: list[jax.Array]) -> list[jax.Array]:
            here = dict(zip(map(id, sources), values, strict=True))
            for operation in rowwise:
                here.update(zip(map(id, operation.outputs), self._on_block(operation, here, first), strict=True))
            new = []
            for operation, how, total in zip(reductions, combine, totals, strict=True):
                (part,) = self._on_block(operation, here, first)
                if how is None:
                    new.append(jax.lax.dynamic_update_slice_in_dim(total, part, first, axis=0))
                else:
                    new.append(how(total, part).astype(total.dtype))
            return new

        start = [
            jnp.full(v.shape, OVER_ROWS[o.primitive.name][1](v.dtype) if how else 0, v.dtype)
            for o, how in zip(reductions, combine, strict=True)
            for v in o.outputs
        ]
        totals = self._through_kept_blocks(source, reduce, start)
        totals = jax.lax.fori_loop(
            self.ends[0],
            self.ends[1],
            lambda i, totals: reduce(i * self.block, source(i * self.block), totals),
            totals,
        )
        for operation, total in zip(reductions, totals, strict=True):
            operation.outputs[0].array = total
            operation.done = True
        return True

    def _through_kept_blocks(self, source: Callable[[Any], Sequence[Any]], reduce: Any, totals: list[Any]) -> list[Any]:
        """The blocks that memory is there for: the first pass keeps them, later ones need not ask the source."""
        memory = self.memory
        if not memory.blocks:
            return totals
        if self.kept is not None:
            kept = self.kept

            def again(i: jax.Array, totals: list[Any]) -> list[Any]:
                first = i * self.block
                part = tuple(jax.lax.dynamic_slice_in_dim(k, first, self.block) for k in kept)
                done: list[Any] = reduce(first, memory.restore(first, part), totals)
                return done

            return jax.lax.fori_loop(0, self.ends[0], again, totals)

        def once(i: jax.Array, carry: tuple[Any, list[Any]]) -> tuple[Any, list[Any]]:
            kept, totals = carry
            first = i * self.block
            values = source(first)
            part = memory.keep(values)
            kept = tuple(
                jax.lax.dynamic_update_slice_in_dim(k, p, first, axis=0) for k, p in zip(kept, part, strict=True)
            )
            return kept, reduce(first, values, totals)

        shapes = jax.eval_shape(lambda: memory.keep(source(jnp.int32(0))))
        nothing = tuple(jnp.zeros((memory.blocks * self.block, *s.shape[1:]), s.dtype) for s in shapes)
        self.kept, totals = jax.lax.fori_loop(0, self.ends[0], once, (nothing, totals))
        return totals

    def _combination(self, operation: Operation) -> Any:
        """None: each block gives its own rows of the result; else how the results of the blocks are combined."""
        name = operation.primitive.name
        shape = operation.outputs[0].shape
        if len(operation.outputs) != 1:
            raise _refusal(operation)
        if name == "dot_general":
            return None if _dot_axis(operation) == 0 else jnp.add
        if name.startswith(("reduce_", "arg")):
            axes = operation.params["axes"]
            if 0 not in axes:
                return None
            if name in OVER_ROWS:
                return OVER_ROWS[name][0]
        elif name in ("squeeze", "reshape") and shape[:1] == (self.rows,):
            return None
        raise _refusal(operation)

    def _on_block(self, operation: Operation, here: dict[int, Any], first: Any) -> list[Any]:
        name, params = operation.primitive.name, dict(operation.params)

        def rows_of(value: Value, axis: int = 0) -> Any:
            return jax.lax.dynamic_slice_in_dim(value.array, first, self.block, axis=axis)

        inputs = [here[id(v)] if v.tall else v.array for v in operation.inputs]
        if name == "broadcast_in_dim":
            (operand,) = operation.inputs[:1]
            if not operand.tall and params["broadcast_dimensions"][:1] == (0,) and operand.shape[0] == self.rows:
                inputs[0] = rows_of(operand)
            params["shape"] = (self.block, *params["shape"][1:])
        elif name == "reshape" and params["new_sizes"][0] == self.rows:
            params["new_sizes"] = (self.block, *params["new_sizes"][1:])
        elif name == "dot_general":
            (contracting, batch) = params["dimension_numbers"]
            for side, other in ((0, 1), (1, 0)):
                for axes in (contracting, batch):
                    for axis, mirrored in zip(axes[side], axes[other], strict=True):
                        value = operation.inputs[side]
                        if not value.tall and mirrored == 0 and operation.inputs[other].tall:
                            inputs[side] = rows_of(value, axis)
        elif name.startswith(("reduce_", "arg")) or name == "squeeze":
            if name == "squeeze" and 0 in params["dimensions"]:
                raise _refusal(operation)
        elif name in ELEMENTWISE:
            for i, value in enumerate(operation.inputs):
                if not value.tall and value.shape[:1] == (self.rows,):
                    inputs[i] = rows_of(value)
        else:
            raise _refusal(operation)
        return operation.run(inputs, params)


def _known(array: Any) -> Value:
    return Value(jnp.shape(array), jnp.result_type(array) if not hasattr(array, "dtype") else array.dtype, array=array)


def _called(equation: Any) -> ClosedJaxpr | None:
    """The function that an operation merely calls."""
    if equation.primitive.name not in CALLS:
        return None
    inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
    return inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())


def _dot_axis(operation: Operation) -> int | None:
    """Where the axis of devices stands in a product; None if the product sums over it."""
    contracting, batch = operation.params["dimension_numbers"]
    position = len(batch[0])
    for side, value in enumerate(operation.inputs):
        free = [a for a in range(len(value.shape)) if a not in contracting[side] and a not in batch[side]]
        if value.tall:
            if 0 in batch[side]:
                return list(batch[side]).index(0)
            if 0 in contracting[side]:
                return None
            if position + free.index(0) != 0:
                raise _refusal(operation)
            return 0
        position += len(free)
    return None


def _refusal(operation: Operation) -> UserError:
    return UserError(
        f"this algorithm uses '{operation.primitive.name}' on all devices' models at once, which cannot be done in "
        "blocks; use fewer devices an event"
    )
