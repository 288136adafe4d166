"""How results are shown. The studies that show them stand above this folder, so they are named here and imported when asked."""

from __future__ import annotations

import importlib
from typing import Any

VIEWS = {
    "html": "paota.studies.report.report:result_html",
    "plot": "paota.studies.report.report:plot",
    "timeline": "paota.studies.report.report:plot_timeline",
    "report": "paota.studies.report.report:write",
}


def view(name: str) -> Any:
    """The function that shows a result in this way."""
    module, _, attribute = VIEWS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
