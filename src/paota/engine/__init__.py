"""The compiled half of a simulation. Free functions on plain structures; nothing here knows an algorithm by name.

    train, prepare     the devices' half of an event
    decide, conclude   the server's half, and `optimise` on top of it
    evaluate, judge    how good a model is
    run_events         the loop over events; `program` compiles it

The simulator runs the loop; a deployment calls the halves, each where it belongs.
"""

from .devices import Prepared, device_keys, encode, prepare, train
from .loop import forget_programs, is_known, judge, known_programs, program, program_key, remembered, run_events
from .server import (
    Decision,
    Judgement,
    Served,
    conclude,
    decide,
    evaluate,
    event_of,
    optimise,
    superpose,
    uplink_of,
)
from .structures import (
    HELD_BYTES,
    PER_DEVICE,
    Fleet,
    Log,
    Row,
    Rule,
    Sizes,
    State,
    Task,
    event_places,
    row_bytes,
    rows_of,
)

__all__ = [
    "HELD_BYTES", "PER_DEVICE", "Decision", "Fleet", "Judgement", "Log", "Prepared", "Row", "Rule", "Served", "Sizes", "State",
    "Task", "conclude", "decide", "device_keys", "encode", "evaluate", "event_of", "event_places", "forget_programs", "is_known",
    "judge", "known_programs", "optimise", "prepare", "program", "program_key", "remembered", "row_bytes", "rows_of",
    "run_events", "superpose", "train", "uplink_of",
]  # fmt: skip
