"""The reference page of all settings, made of the settings themselves: `python docs/_build/settings.py > docs/settings.md`."""

from __future__ import annotations

from collections.abc import Iterator

from paota.base.registry import ALGORITHMS, DATASETS, Registry
from paota.experiment.sections import SECTIONS, TopSettings
from paota.experiment.reference import ALGORITHM, Setting, nameable, options_of, sentence_of, settings_of, shown

HEAD = """# Every setting

What an experiment file may say, and `--set` and Python too. An empty file is the paper: every key has the paper's value
as its default, and *absent* means that the thing does not happen. In Python, `paota.run({"timing": {"period_s": 6}})`; on
the command line, `--set timing.period_s=6`. `paota settings timing` shows a section in the terminal.

This page is written by `python docs/_build/settings.py > docs/settings.md`; a test keeps it true.
"""
TABLE = "| setting | default | unit | range | |\n|---|---|---|---|---|\n"


def markdown() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_sections(), *_algorithms(), *_datasets()])


def _sections() -> Iterator[str]:
    for section, cls in {"": TopSettings, **SECTIONS}.items():
        own = [one for one in settings_of(section) if one.under is None]
        yield f"## {f'`[{section}]`' if section else 'Above the sections'}\n"
        yield f"{(cls.__doc__ or '').splitlines()[0]}\n"
        yield TABLE + "".join(map(_row, own))
        for choice in own:
            if choice.choices is not None:
                yield f"`{choice.key}` is one of:\n"
                yield _alternatives(choice.choices, section, choice.key)


def _algorithms() -> Iterator[str]:
    yield "## `[[algorithms]]`\n"
    yield (
        "Each table has a `name`, perhaps a `label` (the same algorithm twice needs one), the options of the algorithm, and "
        'sections of its own such as `power = { cap = "physical" }`. `--set algorithms.LABEL.payload=update` reaches '
        "an option.\n"
    )
    yield _alternatives(ALGORITHMS, ALGORITHM, "name")


def _datasets() -> Iterator[str]:
    yield "## Data sets by name\n"
    yield "`data.dataset` is one of these, or a path ([data](data.md)).\n"
    yield "".join(f"- **`{name}`**: {sentence_of(DATASETS, name)}\n" for name in DATASETS)


def _alternatives(registry: Registry, section: str, choice: str) -> str:
    """A list of what can be chosen, each with its sentence and the table of its options."""
    parts = []
    for name in registry:
        if not nameable(registry[name]):
            continue
        options = options_of(registry, name, section, choice)
        table = "\n" + "".join("    " + line + "\n" for line in (TABLE + "".join(map(_row, options))).splitlines())
        parts.append(f"- **`{name}`**: {sentence_of(registry, name)}\n" + (f"{table}\n" if options else ""))
    return "".join(parts)


def _row(one: Setting) -> str:
    cells = (f"`{one.name}`", f"`{shown(one.default)}`" if one.default is not None else "*absent*", one.unit)
    words = (one.range.replace("|", "\\|"), one.doc.replace("|", "\\|"))
    return f"| {' | '.join((*cells, *words))} |\n"


if __name__ == "__main__":
    print(markdown(), end="")
