"""The one table of columns: what a run records, with unit, meaning and figure title.

It feeds the checks on loading, the report, plots and the glossary in the documentation. A new metric is one entry here
and the line in `simulate/records.py` that computes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .errors import UserError, is_plain
from .files import Columns


@dataclass(frozen=True)
class Column:
    """A column of a run's tables.

    Args:
        name: key in the table; ends in the unit where there is one.
        meaning: one or two sentences for the glossary and for captions.
        unit: `s`, `J`, `W`, ...; empty for counts, shares and other plain numbers.
        title: of its figure; empty if it has none.
        section: of the report that draws it: "timing", "power" or "privacy"; empty if none does.
        always: whether every run has it, whatever its algorithm.
        integer: whether it counts something.
        log: whether its figure has a logarithmic axis.
        share: whether it is a share from 0 to 1.
        beside_power_limit: whether its figure shows P_max as a line.
        former: the name that version 0.1 gave it.
    """

    name: str
    meaning: str
    unit: str = ""
    title: str = ""
    section: str = ""
    always: bool = False
    integer: bool = False
    log: bool = False
    share: bool = False
    beside_power_limit: bool = False
    former: str | None = None


_NOISES = {
    "": "the receiver's noise alone",
    "own_": "with the device's own noise",
    "all_": "with the noise of all senders",
}
_PRIVACY = tuple(
    column
    for prefix, noise in _NOISES.items()
    for column in (
        Column(f"{prefix}rho_max", f"Largest zCDP loss rho of a device so far, {noise}."),
        Column(
            f"{prefix}epsilon_max",
            "Privacy loss so far of the device that has lost most, at delta = 1e-05. Around 1 is protection; far above 10 "
            "is none.",
            title=f"Epsilon, {noise}", section="privacy", log=True,
        ),
    )
)  # fmt: skip

# One row per version of the global model; row 0 is the initial model.
METRICS = (
    Column("round", "Number of aggregations so far.", always=True, integer=True),
    Column("time_s", "Simulated seconds since the start.", "s", always=True),
    Column(
        "ready",
        "Devices whose update the server aggregates in the round. A periodic scheme starts with all devices in step and "
        "settles after a few rounds.",
        title="Ready devices", section="timing", always=True, integer=True,
    ),
    Column("test_accuracy", "Accuracy, or the model's own score, on the test data; empty without an evaluation.", always=True),
    Column("test_loss", "Loss on the test data; empty without an evaluation.", always=True),
    Column("train_loss", "Loss over the devices' data, or the mean of their mini-batches.", always=True),
    Column(
        "staleness_mean", "Versions between the start of a training and its aggregation, averaged over the round.",
        title="Mean staleness (rounds)", section="timing", always=True,
    ),
    Column(
        "staleness_max", "Largest staleness of the round.",
        title="Largest staleness (rounds)", section="timing", always=True,
    ),
    Column(
        "lost", "Updates that faults removed, or that were discarded because they were too stale.",
        title="Lost updates", section="timing",
    ),
    Column(
        "aborted", "Trainings that the server started and ended without a result.",
        title="Aborted trainings", section="timing",
    ),
    Column(
        "silent", "Ready devices that did not transmit: a guard rejected the update, or the channel was too weak.",
        title="Silent devices", section="timing",
    ),
    Column(
        "amplitude_sum",
        "Sum S of the amplitudes of all transmitting devices. The server divides the received signal and its noise by S, "
        "so a larger S means less noise.",
        title="Amplitude sum S", section="power", always=True, former="power_sum",
    ),
    Column(
        "weight_square_sum", "Sum of the squared weights alpha: 1/n for n equal weights, 1 if one device has all weight.",
        title="Sum of squared weights", section="power",
    ),
    Column(
        "noise_std", "Standard deviation of the noise that one model weight receives, after the division by S.",
        title="Noise on each weight", section="power", always=True, log=True,
    ),
    Column(
        "transmit_power_w_mean",
        "Radiated power |phi w|^2 of a transmitting device, which the paper limits by P_max, averaged over the round.",
        "W", title="Mean transmit power (W)", section="power", always=True, log=True, beside_power_limit=True,
        former="transmit_w_mean",
    ),
    Column(
        "transmit_power_w_max",
        "Largest radiated power of a device in the round. Values above the line exceed the power budget.",
        "W", title="Largest transmit power (W)", section="power", always=True, log=True, beside_power_limit=True,
        former="transmit_w_max",
    ),
    Column(
        "over_budget", "Share of the transmitting devices whose radiated power exceeds the budget P_max.",
        title="Devices over the power limit", section="power", share=True,
    ),
    Column(
        "left_out", "Parameters that transmitting devices left out because their subcarriers were too weak, in total.",
        title="Parameters left out", section="power",
    ),
    Column("energy_j", "Energy that all devices radiate; empty where uploads are ideal.", "J", "Radiated energy (J)"),
    Column("compute_j", "Energy that the devices spend on computing, aborted trainings included.", "J", "Computing energy (J)"),
    Column("airtime_s", "Seconds of the whole band; empty where uploads are ideal.", "s", "Airtime (s)"),
    Column(
        "control_bits",
        "Bits on the control channel: norms and reports of the devices, their amplitudes, and models that stale devices miss.",
        "bit", title="Control bits", section="power", log=True,
    ),
    Column("control_s", "Seconds that the control bits take.", "s", "Control time (s)"),
    *_PRIVACY,
)  # fmt: skip

# One row per device and aggregation.
DEVICES = (
    Column("round", "The aggregation, counted from 1.", always=True, integer=True),
    Column("device", "Number of the device, from 0.", always=True, integer=True),
    Column("version", "Version of the global model from which the training started.", always=True, integer=True),
    Column("staleness", "Versions between that one and the newest.", always=True, integer=True),
    Column("start_s", "Start of the local training.", "s", always=True),
    Column("finish_s", "End of the local training.", "s", always=True),
    Column("time_s", "Time of the aggregation.", "s", always=True),
    Column(
        "amplitude",
        "Amplitude p with which the signal arrives; empty for digital uplinks.",
        always=True,
        former="power",
    ),
    Column("weight", "Weight alpha of the update in the new model.", always=True),
    Column("similarity", "Similarity factor theta, for the algorithms that report it.", always=True),
    Column("transmit_power_w", "Radiated power |phi w|^2.", "W", always=True, former="transmit_w"),
    Column("channel_gain", "Channel gain |h|^2 that the signal meets; with several subcarriers the effective one."),
    Column("left_out", "Parameters that the device left out because their subcarriers were too weak."),
    Column("energy_j", "Radiated energy.", "J"),
    Column("airtime_s", "Seconds of transmission.", "s"),
    Column("compute_j", "Energy of the local training.", "J"),
)

# One row per device and recorded evaluation: the score of the global model on data like the device's own.
DEVICE_SCORES = (
    Column("round", "The evaluated version.", always=True, integer=True),
    Column("device", "Number of the device, from 0.", always=True, integer=True),
    Column("samples", "Training samples that the device holds.", always=True, integer=True),
    Column("accuracy", "Accuracy on test samples, weighted by the device's own shares of the labels.", always=True),
)

_BY_NAME = {column.name: column for column in METRICS}


def metric(name: str) -> Column:
    """The column of this name in the metrics; a plain one for a name that the table does not have."""
    found = _BY_NAME.get(name)
    return found if found and found.title else Column(name, "", title=name.replace("_", " "))


def own_names(columns: Iterable[str]) -> list[str]:
    """The columns that the table does not have: metrics of the user's own."""
    return [name for name in columns if name not in _BY_NAME and name not in ("label", "algorithm", "seed")]


def refuse_recorded(name: object, who: str) -> None:
    """Refuse a metric of the user's own that has no name, or that of a recorded column."""
    if not isinstance(name, str) or not name.strip() or not is_plain(name) or not own_names([name]):
        raise UserError(f"{who} gives a metric {name!r:.80}, which is no name of its own: choose another name")


def drawn_in(section: str) -> list[Column]:
    """The metrics that a section of the report draws."""
    return [column for column in METRICS if column.section == section]


def needed(table: Iterable[Column]) -> list[str]:
    """The names of the columns that every run has."""
    return [column.name for column in table if column.always]


def with_new_names(columns: Columns, table: Iterable[Column]) -> Columns:
    """The columns of a table that an older version may have written, by today's names."""
    new = {column.former: column.name for column in table if column.former}
    return {new.get(name, name): values for name, values in columns.items()}
