"""A folder of many runs that answer one question, such as a sweep or a plan: a file says what is asked, run folders lie below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base import files
from ..base.errors import UserError
from ..base.rng import Seeds
from ..experiment.experiment import Experiment
from ..results import folder as run_folder
from ..results.checkpoint import differences
from ..results.contents import fingerprints
from ..results.result import Result


@dataclass(frozen=True)
class Collection:
    """One kind of such folders: `what` people call it, and the `file` that says what is asked."""

    what: str
    file: str
    format: int

    def begin(self, folder: str | Path, told: Mapping[str, Any], experiment: Experiment) -> Path:
        """A new folder that is `told` what is asked; what cannot be written leaves nothing behind."""
        path = run_folder.new_folder(folder)
        try:
            files.write_json(path / self.file, {**told, "contents": fingerprints(experiment)})
        except UserError:  # read-only or full: leave no half-made folder
            path.rmdir()
            raise
        return path

    def is_begun(self, folder: str | Path) -> bool:
        """Whether `folder` says what is asked."""
        return (Path(folder) / self.file).is_file()

    def read(self, folder: str | Path) -> dict[str, Any]:
        """What `folder` was told."""
        file = Path(folder) / self.file
        if not self.is_begun(folder):
            raise UserError(f"'{folder}' holds no {self.what} to go on with (no {self.file} in it)")
        found = files.read_json(file)
        try:
            if found["format"] != self.format:
                raise UserError(f"'{file}' was written by another version of paota (format {found['format']})")
            return dict(found)
        except (KeyError, TypeError, ValueError) as error:
            raise self.damaged(folder, error) from None

    def damaged(self, folder: str | Path, error: Exception) -> UserError:
        """The sentence for a file that does not say what it should; `error` says why."""
        return UserError(f"'{Path(folder) / self.file}' is damaged: {error!r}")

    def refuse_other(self, folder: str | Path, asked: Mapping[str, Any], begun: Mapping[str, Any]) -> None:
        """A folder answers one question: say what differs between what is asked and what was begun."""
        for name, now, then in differences(asked, begun):
            raise UserError(f"'{folder}' holds another {self.what}: {name} was {then} and is {now}")

    def refuse_changed_files(self, folder: str | Path, experiment: Experiment) -> None:
        """Runs on other data, traces or plug-ins than the rest would decide the answer: say what has changed."""
        then = self.read(folder).get("contents", {})
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
