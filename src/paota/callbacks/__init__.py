"""Who is told while a run goes on, and may stop it: the protocol, and what is built in."""

from .base import Callback, Round, RunUnit, Start
from .notebook import NotebookBar
from .stopping import Patience, StopAt
from .stream import CsvStream
from .tracking import MLflow, TensorBoard, WandB

__all__ = [
    "Callback", "CsvStream", "MLflow", "NotebookBar", "Patience", "Round", "RunUnit", "Start", "StopAt", "TensorBoard",
    "WandB",
]  # fmt: skip
