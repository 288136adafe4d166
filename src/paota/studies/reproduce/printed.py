"""The numbers that the paper prints, and what they say about themselves."""

from __future__ import annotations

TARGETS = (0.5, 0.6, 0.7, 0.8)
# Table I: (rounds, seconds) to each target accuracy.
TABLE = {
    "paota": ((6, 36.0), (10, 60.0), (18, 108.0), (57, 342.0)),
    "local-sgd": ((3, 45.61), (6, 78.17), (12, 181.24), (29, 451.62)),
    "cotaf": ((6, 91.30), (12, 181.21), (29, 316.75), (44, 676.93)),
}
FINAL_ACCURACY = {"paota": 0.835, "local-sgd": 0.824, "cotaf": 0.81}  # Fig. 4
# Seconds a round are 15.1 to 15.6 in six of the eight synchronous entries. These two would need other rounds for that:
# (method, target) -> the rounds that fit.
MISFITS = {("local-sgd", 0.6): 5, ("cotaf", 0.7): 21}
DRAFT_NOISE_W = 0.1  # "uplink noise variance" in a table of an earlier draft, still in the source as a comment
