"""Who is told while a run goes on, and may stop it: the protocol, and what is built in."""

from .base import Callback, Round, RunUnit, Start
from .stopping import Patience, StopAt

__all__ = ["Callback", "Patience", "Round", "RunUnit", "Start", "StopAt"]
