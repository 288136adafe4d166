"""A folder of many runs that answer one question, such as a sweep or a plan.

A JSON file in it holds the question, and the run folders lie below.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..base import files
from ..base.errors import UserError
from ..base.rng import Seeds
from ..base.types import Settings, Table
from ..experiment.experiment import Experiment
from ..results import folder as run_folder
from ..results.checkpoint import differences, fingerprints
from ..results.result import Result


@dataclass(frozen=True, kw_only=True)
class Question(abc.ABC):
    """What a study asks for: an experiment, so many seeds or these, and the metric that decides, as `--best` takes it."""

    experiment: Experiment
    seeds: int | tuple[int, ...]
    best: str

    @abc.abstractmethod
    def identity(self) -> Table:
        """What must not change when the study goes on, beside experiment and seeds."""

    def details(self) -> Table:
        """What else its file holds."""
        return {}


Q = TypeVar("Q", bound=Question)


@dataclass(frozen=True)
class Collection(Generic[Q]):
    """One kind of such folders.

    Args:
        what: its name in messages.
        file: the name of the file with the question.
        format: the version of that file.
        question: makes the question from the file's table; the experiment, the seeds and the metric are given to it.
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

    def begin_or_go_on(self, folder: str | Path, asked: Q) -> Path:
        """The folder of this question, new or begun; one of another question is refused."""
        if not (Path(folder) / self.file).is_file():
            return self.begin(folder, asked)
        self.refuse_other(folder, asked)
        return Path(folder)

    def read(self, folder: str | Path, *, trust_plugins: bool = False) -> Q:
        """The question that was begun in `folder`; `trust_plugins` as for `Experiment.from_dict`."""
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
        """The file of `folder` as it is."""
        file = Path(folder) / self.file
        if not file.is_file():
            raise UserError(f"'{folder}' holds no {self.what} to go on with (no {self.file} in it)")
        found = files.read_json(file)
        try:
            if found["format"] != self.format:
                raise UserError(f"'{file}' was written by another version of paota (format {found['format']})")
            return dict(found)
        except (KeyError, TypeError, ValueError) as error:
            raise self.damaged(folder, error) from None

    def damaged(self, folder: str | Path, error: Exception) -> UserError:
        """The sentence for a file that does not hold what it should; `error` is the reason."""
        return UserError(f"'{Path(folder) / self.file}' is damaged: {error!r}")

    def refuse_other(self, folder: str | Path, asked: Q) -> None:
        """Refuse a folder that answers another question, and name what differs."""
        for name, now, then in differences(self._identity(asked), self._identity(self.read(folder))):
            raise UserError(f"'{folder}' holds another {self.what}: {name} was {then} and is {now}")

    def refuse_changed_files(self, folder: str | Path, experiment: Experiment) -> None:
        """Refuse data, traces or plug-ins that have changed since: runs on others than the rest would decide the answer."""
        then = self.read_table(folder).get("contents", {})
        for path, now in fingerprints(experiment).items():
            if then.get(path, now) != now:
                raise UserError(
                    f"'{path}' has changed since the {self.what} in '{folder}' began: put it back, or begin a new {self.what}"
                )

    def finished(self, path: Path, experiment: Experiment, seeds: Seeds) -> Result | None:
        """The result of a run below that is done; None if it is not. One that belongs elsewhere is refused."""
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
        table: Mapping[str, Any] = {"experiment": asked.experiment.to_dict(), "seeds": asked.seeds, **asked.identity()}
        made: Settings = files.jsonable({"format": self.format, **table})
        return made
