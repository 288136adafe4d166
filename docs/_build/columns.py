"""The glossary of recorded columns, made of the table itself: `python docs/_build/columns.py > docs/columns.md`."""

from __future__ import annotations

from collections.abc import Iterable

from paota.base.columns import DEVICE_SCORES, DEVICES, METRICS, Column

HEAD = """# What a run records

A run folder has three tables. *Always* marks the columns that every run has; an empty cell (NaN in Python) means that the
quantity does not apply. `python docs/_build/columns.py > docs/columns.md` writes this page, and a test keeps it true.
"""
TABLES = {
    "`metrics.csv`: one row per version of the global model": METRICS,
    "`devices.npz`: one row per device and aggregation": DEVICES,
    "`device_scores.npz`: one row per device and recorded evaluation": DEVICE_SCORES,
}


def markdown() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(f"## {title}\n\n{_table(columns)}" for title, columns in TABLES.items())])


def _table(columns: Iterable[Column]) -> str:
    head = "| column | unit | always | meaning |\n|---|---|---|---|\n"
    return head + "".join(
        f"| `{one.name}` | {one.unit} | {'yes' if one.always else ''} | {one.meaning.replace('|', chr(92) + '|')} |\n"
        for one in columns
    )


if __name__ == "__main__":
    print(markdown(), end="")
