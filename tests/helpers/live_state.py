"""A live.json as a run writes it."""

UNIT = {"label": "a", "algorithm": "paota", "seed": 0, "rounds": 4, "done": 1, "state": "running", "accuracy": 0.5}
LOUD = {"seed": 0, "round": 1, "time_s": 8.0, "device": [0], "amplitude": [1.0], "weight": [1.0], "staleness": [0]}
STATE = {
    "format": 1, "title": "t", "score": "accuracy", "began": 0.0, "ended": False, "compiling": {"a": 1.0},
    "rounds_per_second": 2.0, "units": [UNIT], "loud": {"a": LOUD}, "timeline": {},
}  # fmt: skip
