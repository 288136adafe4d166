"""report.html: the verdicts first, then every figure and table. One file, no network, no script."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..reproduce.catalogue import Scale
from ..reproduce.claims import CHANGED, FAILED, REPRODUCED, Verdict
from ..reproduce.tables import Row
from ..runs.files import write_text
from . import markup, palette
from .reproduction_style import NAMES

ASSETS = Path(__file__).parent / "assets"
MARKS = {REPRODUCED: ("yes", "✓"), CHANGED: ("partly", "≈"), FAILED: ("no", "✗")}
CAPTIONS = {
    "fig3-gap": (
        "Fig. 3: convergence",
        "E[F(w^r)] - F(w*), mean over the seeds and the middle half of them. F(w*) is the best value that centralised "
        "training found for the same weighted objective; a table below says how finished that search was.",
    ),
    "fig4-accuracy": (
        "Fig. 4: test accuracy",
        "At N0 = -174 dBm/Hz, against rounds and against simulated time. The grey line is 80 %.",
    ),
    "fig1-system": (
        "Fig. 1: the system",
        "One aggregation of a real run: the ready devices transmit together, as loud as their line is wide; the "
        "others are still training. Positions are for drawing only.",
    ),
    "fig2-workflow": ("Fig. 2: the work-flow", "The first rounds of the same run. Nobody waits for the slowest."),
    "noise": (
        "The noise sweep",
        "Final accuracy against the noise density. Grey lines: the paper's two levels. As printed, an amplitude is "
        "capped at 15 whatever it costs; the physical cap keeps to 15 W.",
    ),
    "ablations": (
        "Ablations",
        "Median over the seeds with the middle half. The period is judged at equal simulated time, the rest after "
        "equal rounds. Optimised, staleness, similarity and uniform are ways to choose the power.",
    ),
    "eta": (
        "Sensitivity to the learning rate",
        "Nothing is tuned per method: one learning rate and one batch size for all.",
    ),
    "bound": (
        "Theorem 1",
        "The bound, printed and corrected, beside the measured gap, with constants estimated from the run.",
    ),
}
COLUMNS = {
    "breaks": {
        "title": "method",
        "path_loss": "path loss",
        "without_noise": "without noise",
        "breaks_at_dbm_per_hz": "breaks at (dBm/Hz)",
        "q25": "q25",
        "q75": "q75",
    },
    "accuracy": {
        "setting": "setting",
        "method": "method",
        "final_accuracy": "final accuracy",
        "q25": "q25",
        "q75": "q75",
    },
    "ablations": {
        "ablation": "what",
        "value": "value",
        "method": "method",
        "final_accuracy": "final accuracy",
        "q25": "q25",
        "q75": "q75",
        "seconds_to_70": "s to 70 %",
        "seconds_to_80": "s to 80 %",
    },
    "optimum": {
        "seed": "seed",
        "best": "F(w*): the best of all searches",
        "value": "found by its own search",
        "gradient_norm": "gradient left",
        "last_gain": "gain of the last stretch",
    },
    "power": {
        "setting": "setting",
        "method": "method",
        "over_budget": "share of transmissions over 15 W",
        "noise_std_a_weight": "noise a weight",
    },
}
NOT_RUN = '<p class="small" style="padding:.75rem">This part was not run.</p>'
SMOKE = '<p class="notice">Smoke run on small made-up data: these figures say nothing about the paper.</p>'
ORDER = ("fig3-gap", "fig4-accuracy", "noise", "ablations", "eta", "bound", "fig1-system", "fig2-workflow")


def write_page(
    path: Path,
    scale: Scale,
    cells: Mapping[str, Any],
    verdicts: Sequence[Verdict],
    tables: Mapping[str, Sequence[Row]],
    figures: Sequence[str],
) -> None:
    folder = path.parent / "figures"
    missing = '<p class="notice">No figures: matplotlib is not installed (<code>pip install "paota[paper]"</code>).</p>'
    parts = {
        "style": palette.theme_css() + (ASSETS / "reproduction.css").read_text(encoding="utf-8"),
        "ran": markup.text(_ran(scale)),
        "warning": SMOKE if scale.quick else "",
        "verdicts": "".join(_verdict(v) for v in verdicts),
        "counts": _counts(verdicts),
        "table1": _table1(tables["table1"]),
        "figures": "".join(_figure(name, folder) for name in ORDER if name in figures) or missing,
        **{name: _table(tables[name], shown) for name, shown in COLUMNS.items()},
        "theorem": _theorem(cells),
    }
    write_text(path, markup.filled((ASSETS / "reproduction.html").read_text(encoding="utf-8"), parts))


def _ran(scale: Scale) -> str:
    return (
        f"{scale.seeds} seeds, {scale.rounds} rounds for the paper's figures and {scale.sweep_rounds} for the sweeps; "
        "one learning rate (0.1) and one batch size (32) for every method."
    )


def _counts(verdicts: Sequence[Verdict]) -> str:
    number = {status: sum(v.status == status for v in verdicts) for status in MARKS}
    return markup.text(
        f"Of {len(verdicts)} claims, {number[REPRODUCED]} are reproduced as printed, {number[CHANGED]} with a change "
        f"and {number[FAILED]} not."
    )


def _verdict(v: Verdict) -> str:
    css, mark = MARKS[v.status]
    change = (
        f'<p class="change">holds with {markup.text(v.change)}: <b>{markup.text(v.changed_estimate)}</b></p>'
        if v.change
        else ""
    )
    return (
        f'<tr class="{css}"><th scope="row" data-head="claim">{markup.text(v.claim.statement)}</th>'
        f'<td data-head="paper">{markup.text(v.claim.paper)}</td>'
        f'<td data-head="measured"><b>{markup.text(v.estimate)}</b><p class="small">{markup.text(v.claim.measured)}; '
        f"rule: {markup.text(v.claim.rule)}</p></td>"
        f'<td data-head="verdict"><span class="mark">{mark} {markup.text(v.status)}</span>{change}</td>'
        f'<td data-head="why">{markup.text(v.reason)}</td></tr>'
    )


def _figure(name: str, folder: Path) -> str:
    title, caption = CAPTIONS[name]
    image = base64.b64encode((folder / f"{name}.png").read_bytes()).decode("ascii")
    return (
        f'<figure id="{name}"><h3>{markup.text(title)}</h3><img src="data:image/png;base64,{image}" '
        f'alt="{markup.text(title)}: {markup.text(caption)}"><figcaption>{markup.text(caption)} '
        f'<a href="figures/{name}.pdf">PDF</a></figcaption></figure>'
    )


def _table1(rows: Sequence[Row]) -> str:
    """Ours beside the paper's: one line a method and period, one pair of columns a target."""
    targets = list(dict.fromkeys(row["target"] for row in rows))
    head = "".join(
        f'<th scope="col">{target:.0%}: rounds</th><th scope="col">{target:.0%}: seconds</th>' for target in targets
    )
    lines = []
    for period_s, method in dict.fromkeys((row["period_s"], row["method"]) for row in rows):
        mine = [row for row in rows if (row["period_s"], row["method"]) == (period_s, method)]
        cells = "".join(_pair(row, "rounds") + _pair(row, "seconds") for row in mine)
        lines.append(f'<tr><th scope="row">{markup.text(NAMES[method])}, ΔT = {period_s} s</th>{cells}</tr>')
    return f'<table><thead><tr><th scope="col">method</th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def _pair(row: Row, what: str) -> str:
    low, middle, high = (number(row[key]) for key in (f"{what}_q25", what, f"{what}_q75"))
    own = middle if low == high else f'{middle} <span class="small">({low} to {high})</span>'
    printed = row[f"paper_{what}"]
    beside = "" if math.isnan(printed) else f'<p class="small">paper {number(printed)}</p>'
    few = "" if row["reached"] == row["seeds"] else f'<p class="small">{row["reached"]} of {row["seeds"]} seeds</p>'
    return f"<td>{own}{beside}{few}</td>"


def _table(rows: Sequence[Row], shown: Mapping[str, str]) -> str:
    if not rows:
        return NOT_RUN
    head = "".join(f'<th scope="col">{markup.text(title)}</th>' for title in shown.values())
    body = "".join(
        "<tr>" + "".join(f"<td>{markup.text(value_text(row[key], key))}</td>" for key in shown) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def value_text(value: Any, key: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return NAMES.get(value, value)
    if key in ("final_accuracy", "without_noise", "over_budget") or (key in ("q25", "q75") and 0 <= value <= 1):
        return f"{value:.1%}"
    return number(value)


def number(value: float) -> str:
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "never" if value > 0 else "at once"
    if float(value).is_integer() and abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _theorem(cells: Mapping[str, Any]) -> str:
    parts = []
    for name, cell in cells.items():
        if name.startswith("bound-"):
            found = "".join(f"<li>{markup.text(sentence)}</li>" for sentence in cell.facts["findings"])
            constants = ", ".join(
                f"{key} {value:.3g}" for key, value in cell.facts["constants"].items() if value is not None
            )
            eta = cell.facts["system"]["learning_rate"]
            parts.append(
                f"<h3>Learning rate {eta:g}</h3><ul>{found}</ul>"
                f'<p class="small">Constants estimated from the run: {markup.text(constants)}.</p>'
            )
    return "".join(parts) or NOT_RUN
