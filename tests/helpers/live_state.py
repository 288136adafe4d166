"""The content of a live.json as a run writes it."""

UNIT = {"label": "a", "algorithm": "paota", "seed": 0, "rounds": 4, "done": 1, "state": "running", "accuracy": 0.5}
STATE = {
    "format": 1, "title": "t", "score": "accuracy", "began": 0.0, "ended": False, "compiling": {"a": 1.0},
    "rounds_per_second": 2.0, "units": [UNIT],
}  # fmt: skip
