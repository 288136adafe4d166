"""The words of `[air]`: choices bring their options, and a new choice takes the options of the old one along."""

import pytest

from paota import Experiment, UserError
from paota.air.digital import Ideal
from paota.air.fading import Jakes, Rayleigh


def test_everything_survives_writing_and_reading():
    air = {
        "fading": "jakes", "doppler_hz": 0.5, "k_factor_db": 3.0, "path_loss": "umi", "carrier_ghz": 2.0, "antennas": 4,
        "packing": "complex", "csi_error": 0.1, "phase_error_rad": 0.2, "timing_error_symbols": 0.3,
        "digital": "tdma", "bits_per_weight": 16,
    }  # fmt: skip
    made = Experiment.from_dict({"air": air, "algorithms": [{"name": "fedbuff", "air": {"digital": "ideal"}}]})
    assert made.air.fading == Jakes(doppler_hz=0.5, k_factor_db=3.0)
    assert made.algorithms[0].air.digital == Ideal()
    assert Experiment.from_dict(made.to_dict()) == made


def test_another_choice_leaves_the_options_of_the_old_one_behind():
    spelled_out = Experiment.from_dict({"air": {"fading": "jakes", "doppler_hz": 0.5}})
    assert spelled_out.override({"air.fading": "rayleigh"}).air.fading == Rayleigh()
    assert spelled_out.override({"timing.latency": "lognormal", "timing.spread": 0.1}).timing.latency.spread == 0.1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"air.fading": "rayleigh", "air.doppler_hz": 1.0}, "air.doppler_hz"),  # given by hand: never dropped silently
        ({"air.csi_error": -0.1}, "air.csi_error must be at least 0"),
        ({"air.timing_error_symbols": 1.5}, "at most 1"),
        ({"air.antennas": 0}, "air.antennas"),
        ({"air.path_loss": "umii"}, "did you mean 'umi'"),
        ({"air.digital": "ofdm"}, "did you mean 'ofdma'"),
        ({"air.packing": "komplex"}, "did you mean 'complex'"),
        ({"air.bits_per_weight": 8}, "air.bits_per_weight"),  # only of a digital uplink that has bits
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(UserError, match=message):
        Experiment.from_dict({"air": {"fading": "jakes"}}).override(changes)
