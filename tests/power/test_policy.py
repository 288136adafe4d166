"""A whole run with the paper's integer programme: the same curve as with the exact optimum."""

import numpy as np

from paota import simulate


def test_mip_and_exact_learn_alike():
    table = {
        "rounds": 25,
        "data": {"dataset": "synthetic", "devices": 8, "sizes": [60, 90]},
        "model": {"name": "softmax"},
        "timing": {"period_s": 6.0},
        "algorithms": [
            {"name": "paota", "label": "exact"},
            {"name": "paota", "label": "mip", "power": {"method": "mip", "segments": 16}},
        ],
    }
    result = simulate.run(table)
    exact, mip = result.array("exact", "test_accuracy")[0], result.array("mip", "test_accuracy")[0]
    assert exact[-1] > exact[0] + 0.2
    assert np.abs(exact - mip).max() < 0.02
    # The noise is negligible, so the scale of the amplitudes is free; weights and term (d) of the bound are compared.
    ready = result.array("exact", "ready")[0, 1:] > 0
    d_exact, d_mip = (result.array(label, "weight_square_sum")[0, 1:][ready] for label in ("exact", "mip"))
    np.testing.assert_allclose(d_mip, d_exact, rtol=0.02)
