"""The page "Reverse-engineering the paper": what would have to be true for its numbers to come out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ...base.files import write_csv, write_text
from ...base.formatting import SHARE_TICKS
from ...pages.curves import Curve
from ...pages.figure import Figure, Style, axes, line, line_chart
from ...pages.page import Page, Section, Table, TableCell, TableRow, render
from . import printed
from .catalogue import Scale
from .choices import HELD_OUT_SEED, HURT, METHODS, Candidate, Found, Reading
from .figures import NAMES
from .pace import Pace, paces
from .tables import columns_of

SHOWN_READINGS = 6
LOST = ": the gain does not carry over, so nothing that was tried explains the rounds"
LEGEND = [
    Style(name="printed", colour=6),
    Style(name="as this project reads the paper", colour=0, dash="dash"),
    Style(name="the nearest that was found", colour=1, dash="dot"),
]


def write_choices(out: Path, scale: Scale, found: Found) -> Path:
    """`open-choices.html`, the same as Markdown, and its tables as CSV, in the folder of a reproduction; returns the page."""
    page, path = build(scale, found), out / "open-choices.html"
    write_text(path, render(page))
    write_text(out / "open-choices.md", markdown(page))
    candidates = [("alone", c) for c in (found.base, *found.singles)]
    candidates += [("path", c) for c in found.path] + [("held out", c) for c in found.held_out]
    rows = [{"search": kind, **_row(candidate)} for kind, candidate in candidates]
    write_csv(out / "tables" / "open-choices.csv", columns_of(rows))
    write_csv(out / "tables" / "open-choices-noise.csv", columns_of([_reading_row(r) for r in found.readings]))
    write_csv(out / "tables" / "open-choices-seconds.csv", columns_of([asdict(pace) for pace in paces()]))
    return path


def build(scale: Scale, found: Found) -> Page:
    """Seconds a round, rounds to a target, and the noise at which COTAF is hurt."""
    nearest = sorted(found.readings, key=lambda r: r.distance)
    return Page(
        kind="paota reproduce --part open-choices",
        title="Reverse-engineering the paper",
        heading="Reverse-engineering the paper",
        ran=f"{len(found.singles)} single choices and {len(found.path) - 1} taken together for Table I, with "
        f"{scale.choice_seeds} seeds of {scale.choice_rounds} rounds each; {len(found.readings)} readings of the noise sweep "
        "for Fig. 3. The paper's figures are not in its source: what is matched are the numbers of Table I and what the text "
        "says about Fig. 3.",
        findings=[_pace_finding(), _rounds_finding(found), _noise_finding(found)],
        warning="Smoke run on small made-up data: these figures say nothing about the paper." if scale.quick else "",
        legend=LEGEND,
        sections=[
            Section(
                id="seconds",
                title="Table I: how long is a round?",
                intro="Computed from the latency law, without training. PAOTA's entries all divide to 6.00 s a round, "
                "though the text sets 8 s. The distance is the root mean square of ln(printed seconds / expected seconds) "
                "over the eight entries of Local SGD and COTAF; 0.10 is 10 % off.",
                tables=[_printed_paces(), _paces(paces())],
            ),
            Section(
                id="rounds",
                title="Table I: which setting needs so many rounds?",
                intro="Fitted: the twelve numbers of rounds in Table I (distance: root mean square of ln(rounds / printed "
                f"rounds), never counted as twice the run). Held out: seeds from {HELD_OUT_SEED} on, and the final "
                "accuracies of Fig. 4, which the search never looks at.",
                tables=[
                    _candidates([found.base, *sorted(found.singles, key=lambda c: c.distance)], "One choice at a time"),
                    _candidates(found.path, "One after another, each time the one that helps most"),
                    _candidates(found.held_out, "Held out: the same two settings with other seeds"),
                ],
            ),
            Section(
                id="picture",
                title="Table I: printed and measured",
                intro="The same rounds as a picture. The search may choose; the project's other pages do not.",
                figures=list(_figures(found)),
            ),
            Section(
                id="noise",
                title="Fig. 3: when does -74 dBm/Hz hurt COTAF and not PAOTA?",
                intro=f"Points of accuracy lost against no noise. Printed: at -74 COTAF is hurt (at least "
                f"{HURT * 100:.0f} point, the least that a figure shows), at -174 nobody, PAOTA never. The distance is the "
                "sum of what is missing; 0 is a match.",
                tables=[
                    _readings(nearest[:SHOWN_READINGS], title="The nearest"),
                    _readings(nearest, title=f"All {len(nearest)}", folded=True),
                ],
            ),
        ],
    )


def _pace_finding() -> str:
    made = paces()
    single = min(made[:-1], key=lambda pace: pace.distance)
    return (
        f"Seconds a round: the single assumption that explains most is “{single.assumption}” (distance "
        f"{made[0].distance:.3f} to {single.distance:.3f}); with a fixed time on top as well ({made[-1].chosen}) "
        f"{made[-1].distance:.3f} is left. No law that ends at 15 s gives the printed 15.57 s."
    )


def _rounds_finding(found: Found) -> str:
    single = min(found.singles, key=lambda c: c.distance, default=found.base)
    best, (held_base, held_best) = found.path[-1], found.held_out
    return (
        f"Rounds: as read here Table I is missed by a factor of {math.exp(found.base.distance):.2f} on average. The single "
        f"choice that explains most is {single.words} ({math.exp(single.distance):.2f}); the nearest found is {best.words} "
        f"({math.exp(best.distance):.2f}). With seeds that the search has not seen: {math.exp(held_base.distance):.2f} and "
        f"{math.exp(held_best.distance):.2f}{'' if held_best.distance < held_base.distance else LOST}."
    )


def _noise_finding(found: Found) -> str:
    matches = [r for r in found.readings if r.distance == 0]
    if not matches:
        nearest = min(found.readings, key=lambda r: r.distance)
        return (
            f"Noise: no reading gives “COTAF hurt, PAOTA not”; the nearest is {nearest.noise}, {nearest.assumptions} "
            f"({nearest.distance * 100:.1f} points off)."
        )
    words = "; ".join(f"{r.noise}, {r.assumptions}" for r in matches)
    as_printed = any(r.noise.startswith("as printed") for r in matches)
    return (
        f"Noise: “COTAF hurt, PAOTA not” comes out under {len(matches)} of {len(found.readings)} readings: {words}. "
        f"{'One' if as_printed else 'None'} of them reads -74 dBm/Hz as printed."
        f"{' In all of them PAOTA is not held to its 15 W.' if all('as printed' in r.assumptions for r in matches) else ''}"
    )


def _printed_paces() -> Table:
    rows = [
        TableRow(
            head=TableCell(text=NAMES[method]),
            cells=[TableCell(text=f"{s / r:.2f}", notes=[f"{s:g} s in {r} rounds"]) for r, s in printed.TABLE[method]],
        )
        for method in METHODS
    ]
    targets = [f"to {target:.0%}" for target in printed.TARGETS]
    return Table(label="Seconds a round", heads=["printed", *targets], rows=rows, title="Seconds a round in Table I")


def _paces(made: Sequence[Pace]) -> Table:
    rows = [
        TableRow(
            head=TableCell(text=pace.assumption),
            cells=[
                TableCell(text=f"{pace.round_s:.2f}"),
                TableCell(text=f"{pace.distance:.3f}", bold=pace.distance == min(p.distance for p in made)),
                TableCell(text=pace.chosen or "nothing"),
            ],
        )
        for pace in made
    ]
    heads = ["assumption", "seconds a round", "distance", "chosen to fit"]
    return Table(label="Assumptions", heads=heads, rows=rows, title="Assumptions", prose=True)


def _candidates(candidates: Sequence[Candidate], title: str) -> Table:
    best = min(candidate.distance for candidate in candidates)
    rows = [
        TableRow(
            head=TableCell(text=c.words),
            cells=[
                TableCell(text=f"{c.distance:.3f}", bold=c.distance == best),
                *(TableCell(text=" / ".join(_rounds(r) for r in c.rounds[m])) for m in METHODS),
                TableCell(text=" / ".join(f"{c.accuracy[m] * 100:.1f}" for m in METHODS)),
            ],
        )
        for c in candidates
    ]
    theirs = [TableCell(text=" / ".join(str(rounds) for rounds, _ in printed.TABLE[m])) for m in METHODS]
    accuracy = TableCell(text=" / ".join(f"{printed.FINAL_ACCURACY[m] * 100:g}" for m in METHODS))
    rows.append(TableRow(head=TableCell(text="printed", muted=True), cells=[TableCell(text=""), *theirs, accuracy]))
    heads = ["choices", "distance", *(f"{NAMES[m]}, rounds" for m in METHODS), "final accuracy, %"]
    return Table(label=title, heads=heads, rows=rows, title=title, prose=True)


def _rounds(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:g}"


def _readings(made: Sequence[Reading], *, title: str, folded: bool = False) -> Table:
    rows = [
        TableRow(
            head=TableCell(text=r.noise),
            cells=[
                TableCell(text=r.assumptions),
                TableCell(text=f"{r.loud_dbm:.0f}"),
                *(
                    TableCell(text=f"{lost * 100:.1f}")
                    for lost in (r.quiet_paota, r.quiet_cotaf, r.loud_paota, r.loud_cotaf)
                ),
                TableCell(text=f"{r.distance * 100:.1f}", bold=r.distance == 0),
            ],
        )
        for r in made
    ]
    heads = ["-174 and -74 dBm/Hz read", "who pays for the channel", "-74 then is, dBm/Hz"]
    heads += [f"{n0}: {who} loses" for n0 in ("-174", "-74") for who in ("PAOTA", "COTAF")]
    heads.append("distance, points")
    return Table(label="Readings of the noise", heads=heads, rows=rows, title=title, prose=True, folded=folded)


def _figures(found: Found) -> Iterable[Figure]:
    """Rounds against the target accuracy: printed, as read, and the nearest, a figure a method."""
    targets = np.array(printed.TARGETS)
    for method in METHODS:
        theirs = [float(rounds) for rounds, _ in printed.TABLE[method]]
        curves = [theirs, found.base.rounds[method], found.path[-1].rounds[method]]
        layout = axes("target accuracy", log=True, y_hover=".3g")
        layout["xaxis"] |= {"tickformat": SHARE_TICKS, "tickvals": list(printed.TARGETS)}
        drawn = [line(i, Curve(x=targets, middle=np.array(curve)), positive=True) for i, curve in enumerate(curves)]
        yield line_chart(
            {"all": (drawn, layout)},
            id=f"rounds-{method}",
            title=f"Rounds to a target: {NAMES[method]}",
            caption="Median over the seeds.",
            alt=f"rounds that {NAMES[method]} needs to each target accuracy.",
        )


def markdown(page: Page) -> str:
    """The findings and tables of a page as Markdown, for the project's own docs."""
    parts = [*(f"- {finding}" for finding in page.findings), ""]
    for section in page.sections:
        parts += [f"## {section.title}", "", str(section.intro), ""]
        for table in section.tables:
            parts += [f"**{table.title}**", ""] if table.title else []
            parts += ["| " + " | ".join(table.heads) + " |", "|" + "---|" * len(table.heads)]
            parts += ["| " + " | ".join(_markdown_cell(c) for c in (row.head, *row.cells)) + " |" for row in table.rows]
            parts.append("")
    return "\n".join(parts)


def _markdown_cell(cell: TableCell) -> str:
    text = f"**{cell.text}**" if cell.bold else cell.text
    return " ".join([text, *(f"({note})" for note in cell.notes)]).replace("|", "\\|")


def _row(candidate: Candidate) -> dict[str, object]:
    rounds = {
        f"{m}_rounds_to_{target:.0%}".replace("%", ""): value
        for m in METHODS
        for target, value in zip(printed.TARGETS, candidate.rounds[m], strict=True)
    }
    accuracy = {f"{m}_final_accuracy": candidate.accuracy[m] for m in METHODS}
    return {"choices": candidate.words, "distance": candidate.distance, **rounds, **accuracy}


def _reading_row(reading: Reading) -> dict[str, object]:
    return {**asdict(reading), "distance": reading.distance}
