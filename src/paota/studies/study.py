"""The common parts of studies: the folder with the question and its runs, a run as a job, and command-line arguments."""

from __future__ import annotations

import abc
import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from ..base import files
from ..base.errors import UserError, is_plain
from ..base.files import Columns
from ..base.registry import register, registered
from ..base.rng import Seeds
from ..base.system import EXIT_CODE
from ..base.types import Json, Settings, Table
from ..callbacks.base import Callback, Round, Start
from ..experiment.experiment import Experiment, with_objects
from ..results import folder as run_folder
from ..results.checkpoint import Checkpoints, differences, fingerprints
from ..results.result import Result
from ..terminal.arguments import add_dry_run, add_open, add_trust, go_on, refuse_dry_resume
from .pool import ReportShare, Shared, Watch, pickled, require_ray

if TYPE_CHECKING:
    from rich.console import Console

MOST_LINES = 40  # of a table in the terminal
REPORT_EVERY_S = 0.5
# Jobs begin: their title, and their names by key.
Watching = Callable[[str, Mapping[str, str]], AbstractContextManager[Watch]]


@dataclass(frozen=True, kw_only=True)
class Question(abc.ABC):
    """The question of a study: an experiment, its seeds, and the metric that decides, as `--best` takes it.

    `seeds` is a number of seeds, or the seeds themselves.
    """

    experiment: Experiment
    seeds: int | tuple[int, ...]
    best: str

    @abc.abstractmethod
    def identity(self) -> Table:
        """Return what must not change when the study is resumed, beside experiment and seeds."""

    def details(self) -> Table:
        """Return the other entries of the study's file."""
        return {}


Q = TypeVar("Q", bound=Question)


@dataclass(frozen=True)
class Collection(Generic[Q]):
    """One kind of study folder. A JSON file in it holds the question; the run folders lie below.

    Args:
        what: the name of the study in messages.
        file: the name of the file with the question.
        format: the version of that file.
        question: makes the question from the file's table; it also gets the experiment, the seeds and the metric.
    """

    what: str
    file: str
    format: int
    question: Callable[..., Q]

    def begin(self, folder: str | Path, asked: Q) -> Path:
        """Make a new folder for a question; a failure to write leaves nothing behind."""
        path = run_folder.new_folder(folder)
        contents = fingerprints(asked.experiment)
        try:
            files.write_json(path / self.file, {**self._identity(asked), **asked.details(), "contents": contents})
        except UserError:  # read-only or full: leave no half-made folder
            path.rmdir()
            raise
        return path

    def begin_or_resume(self, folder: str | Path, asked: Q) -> Path:
        """Return the folder of this question, new or begun; refuse one that holds another question."""
        if not (Path(folder) / self.file).is_file():
            return self.begin(folder, asked)
        self.refuse_other(folder, asked)
        return Path(folder)

    def read(self, folder: str | Path, *, trust_plugins: bool = False) -> Q:
        """Return the question that was begun in `folder`; `trust_plugins` as for `Experiment.from_dict`."""
        found = self.read_table(folder)
        try:
            seeds = found["seeds"]
            return self.question(
                found,
                experiment=Experiment.from_dict(dict(found["experiment"]), trust_plugins=trust_plugins),
                seeds=tuple(map(int, seeds)) if isinstance(seeds, list) else int(seeds),
                best=str(found["best"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self.damaged(folder, error) from None

    def read_table(self, folder: str | Path) -> Table:
        """Return the file of `folder` as a table."""
        file = Path(folder) / self.file
        if not file.is_file():
            raise UserError(f"'{folder}' holds no {self.what} to resume (no {self.file} in it)")
        found = files.read_json(file)
        if (text := next((text for text in files.texts_in(found) if not is_plain(text)), None)) is not None:
            raise UserError(f"'{file}' holds a text with control characters, {ascii(text)[:60]}")
        try:
            if found["format"] != self.format:
                raise UserError(f"'{file}' was written by another version of paota (format {found['format']})")
            return dict(found)
        except (KeyError, TypeError, ValueError) as error:
            raise self.damaged(folder, error) from None

    def damaged(self, folder: str | Path, error: Exception) -> UserError:
        """Return the sentence for a file with wrong contents; `error` is the reason."""
        return UserError(f"'{Path(folder) / self.file}' is damaged: {error!r}")

    def refuse_other(self, folder: str | Path, asked: Q) -> None:
        """Refuse a folder that answers another question, and name what differs."""
        for name, now, then in differences(self._identity(asked), self._identity(self.read(folder))):
            raise UserError(f"'{folder}' holds another {self.what}: {name} was {then} and is {now}")

    def refuse_changed_files(self, folder: str | Path, experiment: Experiment) -> None:
        """Refuse data, traces or plug-ins that have changed since the study began, since all runs must use the same."""
        then = self.read_table(folder).get("contents", {})
        for path, now in fingerprints(experiment).items():
            if then.get(path, now) != now:
                raise UserError(
                    f"'{path}' has changed since the {self.what} in '{folder}' began: put it back, or begin a new {self.what}"
                )

    def finished(self, path: Path, experiment: Experiment, seeds: Seeds) -> Result | None:
        """Return the result of a finished run below the folder, else None; refuse a run that belongs elsewhere."""
        if not run_folder.is_finished(path):
            return None
        result = run_folder.load(path)
        for name, now, then in run_folder.differences_from(result, experiment, seeds):
            raise UserError(
                f"'{path}' belongs to another {self.what}: {name} was {then} and is {now}; remove it to compute it again"
            )
        run_folder.remove_leftovers(path)
        return result

    def _identity(self, asked: Q) -> Settings:
        table = {"experiment": asked.experiment.to_dict(), "seeds": asked.seeds, **asked.identity()}
        made: Settings = files.jsonable({"format": self.format, **table})
        return made

    def asked(self, args: argparse.Namespace, given: tuple[object, ...], make: Callable[[], Q]) -> Q:
        """Return the question of a command: from its arguments, or from the folder of `--resume`.

        Args:
            args: the arguments of `add_computing`.
            given: the arguments that state a question; if all are empty, `--resume` reads the folder's own question.
            make: makes the question from the arguments; a folder to resume must hold the same.
        """
        if args.resume and not any(given):
            return self.read(args.resume, trust_plugins=args.trust_plugins)
        question = make()
        if args.resume:
            self.refuse_other(args.resume, question)
        return question

    def interrupted(self, folder: Path, asked: Q) -> int:
        """Print how to resume after Ctrl-C; return the exit code."""
        hint = go_on(self.what, folder, asked.experiment)
        print(f"\npaota: interrupted; what is finished is saved; {hint}", file=sys.stderr)
        return EXIT_CODE


@dataclass(frozen=True, kw_only=True)
class RunJob:
    """One experiment with all its seeds as a job of the pool. It leaves a run folder without a page.

    An interrupted run resumes from its checkpoints; the results are bit-identical.
    """

    key: str
    experiment: Settings  # in the vocabulary of an experiment file
    base: str = "."  # paths in the experiment are relative to it
    seeds: Seeds
    folder: str
    given: Shared | None = None  # objects of Python that the experiment names, and what was registered
    callbacks: tuple[object, ...] = ()  # names, or objects that can be pickled; every job has its own copies
    title: str | None = None  # for callbacks
    devices: bool = True  # whether to keep the records of the devices, which are most of a folder's size

    def compute(self, report: ReportShare) -> None:
        """Prepare, run and write; `report` is called with the finished share of all rounds."""
        from .. import simulate  # start-up time
        from ..callbacks.stream import LiveStream  # start-up time

        things = {} if self.given is None else self.given.things
        for (what, kind, name), thing in things.items():
            if what == "register":
                register(kind, name, thing)
        table = with_objects(
            self.experiment, {words: thing for words, thing in things.items() if words[0] != "register"}
        )
        plan = simulate.prepare(Experiment.from_dict(table, base=Path(self.base)), seeds=self.seeds)
        path = Path(self.folder)
        path.mkdir(exist_ok=True)
        checkpoints = Checkpoints(path / run_folder.CHECKPOINTS, simulate.identity(plan))
        callbacks = [ShareReporter(report), LiveStream(), *copy.deepcopy(self.callbacks)]
        result = simulate.execute(plan, callbacks=callbacks, checkpoints=checkpoints, title=self.title, folder=path)
        run_folder.write_folder(result if self.devices else _without_devices(result), path, report=False)
        run_folder.remove_leftovers(path)


def shared_by_jobs(experiment: Experiment, callbacks: Sequence[object] = (), *, processes: bool) -> Shared:
    """Return what the jobs of a study need from this process; refuse at once what cannot reach other `processes`."""
    shared = Shared({**registered(), **experiment.objects})
    if processes:
        _ = shared.content
        for callback in callbacks:
            pickled(callback, "the callback", repr(callback))
    return shared


class ShareReporter(Callback):
    """Reports the finished share of all rounds, over all algorithms and seeds, every half second."""

    def __init__(self, report: ReportShare) -> None:
        self._report = report
        self._last = time.monotonic()
        self._done: dict[tuple[str, int], int] = {}
        self._total = 1

    def start(self, run: Start) -> None:
        self._total = max(1, sum(unit.rounds for unit in run.units))

    def round(self, round: Round) -> None:
        self._done[round.label, round.seed] = round.round
        if time.monotonic() - self._last >= REPORT_EVERY_S:
            self._last = time.monotonic()
            self._report(sum(self._done.values()) / self._total)


def _without_devices(result: Result) -> Result:
    kept = [replace(t, devices={name: column[:0] for name, column in t.devices.items()}) for t in result.trajectories]
    return replace(result, trajectories=kept)


def add_computing(parser: argparse.ArgumentParser, *, what: str, runs: str) -> None:
    """Add the arguments that say how and where a study is computed; `check_computing` checks them.

    Args:
        parser: of the command.
        what: the name of the study in help texts.
        runs: the name of its runs in help texts, in the plural.
    """
    parser.add_argument("--jobs", type=int, metavar="N", help=f"{runs} computed in parallel (default: one per core)")
    parser.add_argument(
        "--ray", nargs="?", const="", metavar="ADDRESS",
        help="compute on a Ray cluster instead (default address: Ray's own)",
    )  # fmt: skip
    parser.add_argument("--out", metavar="DIR", help=f"the {what} folder (default runs/NAME-{what}-DATE-TIME)")
    parser.add_argument("--resume", metavar="DIR", help=f"resume an interrupted {what}; finished runs are kept")
    add_trust(parser)
    add_dry_run(parser)
    add_open(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON and nothing else")
    parser.add_argument("--quiet", action="store_true", help="no progress display")


def check_computing(args: argparse.Namespace) -> None:
    """Refuse impossible arguments of `add_computing` before anything is read or made."""
    check_jobs(args.jobs, "--jobs")
    refuse_dry_resume(args)
    if args.resume and args.out:
        raise UserError("--resume continues in its own folder: give it without --out")
    if args.out:
        run_folder.refuse_used_folder(args.out)
    if args.ray is not None:
        require_ray()


def check_jobs(jobs: int | None, name: str = "jobs") -> None:
    """Refuse a number of processes below 1; `name` is the argument."""
    if jobs is not None and jobs < 1:
        raise UserError(f"{name} must be at least 1, not {jobs}")


def watching(args: argparse.Namespace, noun: str) -> Watching:
    """Return the function that shows the progress of jobs; `noun` is their name in the plural."""
    if args.json or args.quiet:
        return unwatched
    from .progress import TasksDisplay  # start-up time

    return lambda title, names: TasksDisplay(title, noun, names, sys.stderr, output=sys.stdout)


def unwatched(title: str, names: Mapping[str, str]) -> AbstractContextManager[Watch]:
    """Show nothing."""
    return nullcontext(lambda update: None)


def print_json(value: Json) -> None:
    """Print one line of JSON without NaN."""
    print(json.dumps(files.jsonable(value), allow_nan=False))


def rows_of(columns: Columns) -> list[Table]:
    """Return the rows of a table that is given by columns."""
    cells: Mapping[str, list[object]] = {name: column.tolist() for name, column in columns.items()}
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]


def print_answer(console: Console, question: str, sentences: Sequence[str], failed: Mapping[str, str]) -> None:
    """Print the question of a study, its answer in sentences, and the reasons of failed runs by their names."""
    console.print(question)
    for sentence in sentences:
        console.print(f"  {sentence}", soft_wrap=True)
    for name, why in failed.items():
        console.print(f"failed: {name}: {why}", soft_wrap=True)
