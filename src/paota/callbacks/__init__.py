"""Callbacks: objects that observe a run and may stop it. The protocol, and the built-in callbacks."""

from .base import Callback, Round, RunUnit, Start
from .group import Patience, StopAt
from .notebook import NotebookBar
from .stream import CsvStream
from .tracking import MLflow, TensorBoard, WandB

__all__ = [
    "Callback", "CsvStream", "MLflow", "NotebookBar", "Patience", "Round", "RunUnit", "Start", "StopAt", "TensorBoard",
    "WandB",
]  # fmt: skip
