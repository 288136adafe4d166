"""The arguments of an instance: what is checked, and one clear sentence for everything else."""

from __future__ import annotations

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.power import problem_from, solve

GOOD = {"p_max": [15.0, 10.0], "staleness": [0, 1], "similarity": [0.2, 0.9]}

SENSELESS = {
    "unknown argument": ({"stalenes": [1, 2]}, "unknown argument 'stalenes': did you mean 'staleness'?"),
    "flag for a number": ({"p_max": [1, True]}, r"p_max\[1\] = True must be a number"),
    "huge whole number": ({"p_max": [10**400, 1]}, "p_max must be a number or a flat list"),
    "NaN": ({"p_max": [15, float("nan")]}, r"p_max\[1\] = nan must be a number"),
    "infinite": ({"p_max": [15, float("inf")]}, r"p_max\[1\] = inf must be finite"),
    "negative": ({"p_max": [15, -1]}, r"p_max\[1\] = -1 must not be negative"),
    "negative staleness": ({"staleness": [0, -1]}, r"staleness\[1\] = -1 must not be negative"),
    "similarity beyond 1": ({"similarity": [0.2, 1.5]}, r"similarity\[1\] = 1.5 must lie in \[0, 1\]"),
    "similarity below 0": ({"similarity": [-0.2, 1]}, r"similarity\[0\] = -0.2 must not be negative"),
    "wrong length": ({"similarity": [0.2]}, "similarity has 1 values, but p_max has 2"),
    "wrong ready": ({"ready": [1, 2]}, r"ready\[1\] = 2 must be true or false"),
    "ready too long": ({"ready": [1, 1, 1]}, "ready has 3 values, but p_max has 2"),
    "text": ({"p_max": "15"}, "p_max must be a number or a flat list"),
    "ragged": ({"p_max": [[1], [1, 2]]}, "p_max must be"),
    "two axes": ({"p_max": [[1, 2], [3, 4]]}, "p_max must be a flat list"),
    "no p_max": ({"p_max": None}, "p_max is missing"),
    "no staleness": ({"staleness": None}, r"staleness is missing \(or give rho\)"),
    "no similarity": ({"similarity": None}, r"similarity is missing \(or give theta\)"),
    "both forms": ({"rho": [1, 1]}, "give staleness or rho, not both"),
    "boxes too": ({"lo": [1, 1], "hi": [2, 2]}, "give lo and hi, or p_max and its companions"),
    "omega 0": ({"omega": 0}, "instance.omega must be greater than 0, not 0"),
    "negative L": ({"smoothness": -1}, "instance.smoothness must be at least 0, not -1"),
    "NaN eps": ({"epsilon2": float("nan")}, "instance.epsilon2 must be a finite number"),
    "half a device": ({"num_devices": 2.5}, "instance.num_devices must be a whole number"),
    "no device": ({"num_devices": 0}, "instance.num_devices must be at least 1"),
    "no parameter": ({"num_parameters": 0}, "instance.num_parameters must be at least 1"),
    "flag as number": ({"num_parameters": True}, "instance.num_parameters must be a whole number, not True"),
    "negative noise": ({"noise_power_w": -1e-9}, "instance.noise_power_w must be at least 0, not -1e-09"),
    "two noises": ({"noise_power_w": 1, "bandwidth_hz": 1}, "noise_power_w, or bandwidth_hz and n0_dbm_per_hz"),
    "loud noise": ({"n0_dbm_per_hz": 1e9}, "instance.n0_dbm_per_hz must be at most 300"),
    "overflow": ({"noise_power_w": 1e308}, "instance.noise_power_w must be at most 3.4e"),
    "none can send": ({"p_max": [0, 0]}, "no ready device can send"),
}


@pytest.mark.parametrize("case", SENSELESS, ids=lambda case: case.replace(" ", "-"))
def test_senseless_values_are_one_sentence(case):
    changes, fragment = SENSELESS[case]
    with pytest.raises(UserError, match=fragment):
        solve(**GOOD | changes)


@pytest.mark.parametrize(
    ("boxes", "fragment"),
    [
        ({"lo": [1, 3], "hi": [2, 2]}, r"lo\[1\] = 3 is greater than hi\[1\] = 2"),
        ({"lo": [1, 3]}, "hi is missing"),
        ({"hi": [1, 3]}, "lo is missing"),
        ({"lo": [1], "hi": [1, 2]}, "hi has 2 values, but lo has 1"),
        ({"lo": [-1], "hi": [1]}, r"lo\[0\] = -1 must not be negative"),
        ({"lo": [], "hi": []}, "lo is empty"),
    ],
)
def test_senseless_boxes_are_one_sentence(boxes, fragment):
    with pytest.raises(UserError, match=fragment):
        solve(**boxes)


def test_scalars_stand_for_every_device_and_noise_has_two_forms():
    # N0 = -74 dBm/Hz is 10^-10.4 W/Hz; times 20 MHz: 7.96e-4 W
    by_density = solve(p_max=15, staleness=[0, 1, 2], similarity=0.5, bandwidth_hz=20e6, n0_dbm_per_hz=-74)
    by_power = solve(p_max=[15] * 3, rho=[1, 0.75, 0.6], theta=[0.5] * 3, noise_power_w=20e6 * 10**-10.4)
    np.testing.assert_allclose(by_density.power, by_power.power, rtol=1e-14)
    assert by_density.term_e == pytest.approx(by_power.term_e, rel=1e-12)
    assert problem_from(p_max=15, staleness=0, similarity=1).noise_power_w == pytest.approx(7.962e-14, rel=1e-3)
