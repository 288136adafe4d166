"""Inputs of the compiled programs that the units of a run share: learning problems, shapes, and data on the device."""

from __future__ import annotations

import threading

from jaxtyping import Array, Float

from .. import engine
from ..algorithms.base import keeps_memory
from ..base.errors import UserError
from ..engine.sharding import mesh_of_all
from ..experiment.experiment import AlgorithmConfig
from ..training.caches import use_compile_cache
from ..training.learner import Learner, Samples, choose
from .preparation import PreparedRun

MOST_EVENTS = 64  # of an engine call: a small model takes well under a second, and more events gain nothing
MOST_PARTICIPATIONS = 2**23  # rows of devices of an engine call, which must fit into memory
MOST_KEPT_BYTES = 2**28  # of a state that stays in memory while the engine makes the next one


class Programs:
    """The inputs of the compiled programs of a run, made once and shared by its units. Safe to use from many threads.

    Args:
        prepared: the run.
        events_per_call: aggregations of one engine call; None: as many as take about a second.
    """

    def __init__(self, prepared: PreparedRun, events_per_call: int | None = None) -> None:
        use_compile_cache()
        self.prepared, self.events_per_call = prepared, events_per_call
        self.max_data_sets = 1  # device data in memory at once: it must not grow with the number of seeds
        self._problems: dict[str, engine.LearningProblem] = {}  # by label
        self._samples: dict[Learner, dict[str, Samples]] = {}
        self._device_data: dict[tuple[Learner, int], engine.DeviceData] = {}
        self._lock = threading.RLock()
        self._extremes: dict[str, tuple[int, int]] = {}  # by label: greatest staleness and most events of all seeds
        for entry in prepared.experiment.algorithms:
            timelines = [prepared.timelines[entry.label, seed] for seed in prepared.seeds]
            self._extremes[entry.label] = max(t.max_staleness for t in timelines), max(len(t) for t in timelines)

    def problem(self, entry: AlgorithmConfig) -> engine.LearningProblem:
        """Return the learning problem of this algorithm; equal for algorithms that train alike."""
        with self._lock:
            if entry.label not in self._problems:
                self._problems[entry.label] = self._make_problem(entry)
            return self._problems[entry.label]

    def _make_problem(self, entry: AlgorithmConfig) -> engine.LearningProblem:
        dataset = self.prepared.dataset
        most = max(int(shards.sizes.max()) for shards in self.prepared.shards.values())
        return engine.LearningProblem(
            model=self.prepared.model,
            input_shape=tuple(dataset.input_shape),
            num_classes=dataset.num_classes,
            learner=learner_of(self.prepared, entry)[0],
            train_loss=self.prepared.experiment.evaluation.train_loss,
            most_samples=None if entry.training.epochs is None else _power_of_two(most),
            mesh=mesh_of_all(),
        )

    def program_shape(self, entry: AlgorithmConfig, seed: int) -> engine.ProgramShape:
        """Return the shape of the program of one algorithm and seed.

        Places fit this seed's own largest event, since a sum over more of them may round differently. Versions and
        events change no bit: they are those of all seeds, to compile few programs.
        """
        most = int(self.prepared.timelines[entry.label, seed].ready.max(initial=0))
        problem = self.problem(entry)
        of_device = engine.row_bytes(entry.algorithm, problem.num_parameters)
        places, block = engine.event_places(most, of_device, problem.mesh)
        if block is not None and keeps_memory(entry.algorithm):
            raise UserError(
                f"'{entry.label}' has devices with a memory, and {most:,} of them in an event do not fit into memory "
                "at once; use fewer devices an event"
            )
        stalest, longest = self._extremes[entry.label]
        versions = 1 << max(2, stalest.bit_length())  # few different shapes
        large = 4 * versions * problem.num_parameters > MOST_KEPT_BYTES
        if self.events_per_call is not None:
            least = 1 if large else 2  # XLA may round a loop of one event differently
            events = min(max(self.events_per_call, least), longest)
        elif large:
            events = 1
        else:
            events = min(MOST_EVENTS, _power_of_two(longest), _power_of_two(max(1, MOST_PARTICIPATIONS // places)))
        return engine.ProgramShape(places=places, versions=versions, events=events, block=block)

    def device_data(self, entry: AlgorithmConfig, seed: int) -> engine.DeviceData:
        """Return the data of one seed on the JAX device, encoded for the algorithm's learner; seeds share samples.

        Shards of all seeds are padded alike, to one of few lengths, so that they compile once.
        """
        learner = self.problem(entry).learner
        with self._lock:
            if learner not in self._samples:
                self._samples[learner] = engine.DeviceData.samples(self.prepared.dataset, learner)
            if (learner, seed) not in self._device_data:
                if len(self._device_data) >= self.max_data_sets:
                    del self._device_data[next(iter(self._device_data))]
                entries = _power_of_two(max(len(s.indices) for s in self.prepared.shards.values()))
                made = engine.DeviceData.of(self._samples[learner], self.prepared.shards[seed], entries=entries)
                self._device_data[learner, seed] = made
            return self._device_data[learner, seed]

    def initial_state(
        self, config: engine.RoundConfig, model: Float[Array, " d"], shape: engine.ProgramShape
    ) -> engine.State:
        """Return the state before the first event, from the initial model."""
        return engine.State.initial(config, model, shape.versions, self.prepared.experiment.data.devices)


def _power_of_two(number: int) -> int:
    """Return the next power of two, so that one program serves many lengths."""
    return 1 << (number - 1).bit_length()


def learner_of(prepared: PreparedRun, entry: AlgorithmConfig) -> tuple[Learner, str]:
    """Return the learner of one algorithm, and one line that names it and the reason."""
    data = prepared.dataset
    shifted = entry.algorithm.shifts_gradients
    return choose(prepared.model, data.x_train, data.num_classes, entry.training, data.scaling, shifted)


def describe_learners(prepared: PreparedRun) -> str:
    """Return the lines of all algorithms; a single line if they are equal."""
    lines = {entry.label: learner_of(prepared, entry)[1] for entry in prepared.experiment.algorithms}
    together = dict.fromkeys(lines.values())
    return next(iter(together)) if len(together) == 1 else "; ".join(f"{who}: {line}" for who, line in lines.items())
