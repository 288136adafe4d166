"""Upload times, energy and airtime, by hand."""

import jax
import numpy as np
from helpers.timelines import synchronous
from scipy.stats import expon, kstest

import paota
from paota.air.digital import Ofdma, Tdma, Uploads, WithTransfers, upload_cost
from paota.air.settings import Air
from paota.air.spending import Costs, device_spending, event_spending, symbols
from paota.base import settings
from paota.base.settings import as_tree
from paota.engine import ProgramShape, inputs_of
from paota.experiment.experiment import Experiment
from paota.simulate import prepare
from paota.timing.latency import Latencies, PerDevice
from paota.timing.timeline import Horizon, Timeline, Trainings

BAND = {"bandwidth_hz": 1e6, "n0_dbm_per_hz": -30.0}  # N0 = 1e-6 W/Hz: 1 W of noise in the whole band


def air(**more):
    return settings.parse(Air, {**BAND, **more}, "air")


def test_ofdma_by_hand():
    """Half the band, 0.5 W of noise. P|h|^2 = 1.5 W: SNR 3, 2 bits a symbol, 1 Mbit/s: 1 s for 1 Mbit at all of P.

    At 24 dB and more the modulation limits to 1 bit a symbol: 0.5 Mbit/s, and the power drops to SNR 1, 0.5 W/|h|^2.
    """
    cost = upload_cost(Ofdma(), np.array([0.1]), bits=1e6, shares=2, air=air(), max_power_w=15.0)
    np.testing.assert_allclose(np.ravel(cost), [1.0, 1.0, 0.5, 15.0], rtol=1e-9)
    capped = upload_cost(
        Ofdma(max_bits_per_symbol=1.0), np.array([100.0]), bits=1e6, shares=2, air=air(), max_power_w=15.0
    )
    np.testing.assert_allclose(np.ravel(capped), [2.0, 2.0, 1.0, 2 * 0.5 / 100], rtol=1e-9)


def test_tdma_by_hand():
    """The whole band, 1 W of noise, half the time. P|h|^2 = 3 W: 2 Mbit/s, 0.5 s on the air within 1 s."""
    cost = upload_cost(Tdma(), np.array([0.2]), bits=1e6, shares=2, air=air(), max_power_w=15.0)
    np.testing.assert_allclose(np.ravel(cost), [1.0, 0.5, 0.5, 7.5], rtol=1e-9)


def test_snr_gap_costs_rate():
    """A gap of 10 log10(3) dB turns SNR 3 into 1: 1 bit a symbol, twice as long."""
    cost = upload_cost(
        Ofdma(snr_gap_db=10 * np.log10(3)), np.array([0.1]), bits=1e6, shares=2, air=air(), max_power_w=15.0
    )
    np.testing.assert_allclose(cost.on_air_s, 2.0)


def uploads(devices=3000, **more):
    return Uploads(air(digital="ofdma", **more), max_power_w=15.0, num_parameters=100, devices=devices, seed=4)


def test_uploads_fade_and_do_not_depend_on_who_asks():
    everyone = np.arange(3000)
    made = uploads()
    assert kstest(made._gains(0), expon.cdf).pvalue > 0.01
    assert abs(np.corrcoef(made._gains(0), made._gains(1))[0, 1]) < 0.06
    late_first = uploads()
    late_first(everyone[:1], np.array([7]))
    np.testing.assert_array_equal(late_first(everyone, everyone % 3).wait_s, made(everyone, everyone % 3).wait_s)


def test_uploads_meet_the_path_loss_of_the_analog_uplink():
    from paota.air.channel import mean_gain

    near, far = uploads(path_loss="none"), uploads(path_loss="umi")
    gain = jax.jit(lambda device: mean_gain(far.air, jax.random.key(4), device))(np.arange(3000))
    np.testing.assert_allclose(far._gains(2) / near._gains(2), gain, rtol=1e-4)


def test_upload_adds_to_the_round():
    computing = Latencies(PerDevice(seconds=(3.0, 5.0)), devices=2, seed=4)
    sending = uploads(devices=2)
    timeline = synchronous(WithTransfers(computing, uploads=sending), participants=2, horizon=Horizon(rounds=1))
    wait_s = sending(np.arange(2), np.zeros(2, int)).wait_s
    assert np.all(wait_s > 0)
    ends_s = np.array([3.0, 5.0]) + wait_s
    np.testing.assert_allclose(timeline.finish_s, ends_s)
    assert timeline.time_s[0] == max(ends_s)


def test_only_digital_algorithms_upload_and_the_comparison_stays_fair():
    made = Experiment.from_dict(
        {
            "rounds": 5,
            "data": {"dataset": "synthetic", "devices": 20, "sizes": [30]},
            "air": {"digital": "ofdma", "bandwidth_hz": 1e3},
            "algorithms": [
                {"name": "local-sgd"},
                {"name": "local-sgd", "label": "ideal", "air": {"digital": "ideal", "bandwidth_hz": 20e6}},
                {"name": "cotaf"},
            ],
        }
    )
    lines = prepare(made).timelines
    assert lines["local-sgd", 0].time_s[0] > lines["ideal", 0].time_s[0] + 1
    np.testing.assert_array_equal(lines["cotaf", 0].time_s, lines["ideal", 0].time_s)
    np.testing.assert_array_equal(lines["local-sgd", 0].device, lines["ideal", 0].device)


def test_the_band_is_shared_by_those_who_may_upload():
    """A synchronous round starts `selected` devices, or its participants; every other scheme all twenty."""
    rules = [
        {"name": "local-sgd", "participants": 6},
        {"name": "local-sgd", "label": "over", "participants": 6, "selected": 9},
        {"name": "fedbuff"},
    ]
    data = {"dataset": "synthetic", "devices": 20, "sizes": [60]}
    made = prepare(paota.Experiment.from_dict({"data": data, "air": {"digital": "ofdma"}, "algorithms": rules}))
    assert [made.costs[entry.label, 0].uploads.shares for entry in made.experiment.algorithms] == [6, 9, 20]


def two_events():
    """Devices 0 and 1 in the first event, none in the second, device 1 in the third."""
    return Timeline.build(
        [
            (4.0, Trainings(*map(np.array, ([0, 1], [0, 0], [0, 0], [0.0, 0.0], [3.0, 4.0])))),
            (5.0, Trainings(*(np.zeros(0) for _ in range(5)))),
            (9.0, Trainings(*map(np.array, ([1], [1], [1], [4.0], [9.0])))),
        ]
    )


def test_analog_cost_by_hand():
    """d = 7 at B = 1 MHz: 7 us on the air. |phi w|^2 = 6 W summed over the symbols: 6 uJ. Silent: not on the air."""
    power = np.array([6.0, 0.0, 3.0])
    spent = device_spending(two_events(), power, block_symbols=7, air=air(), costs=Costs(compute_power_w=2.0))
    np.testing.assert_allclose(spent["energy_j"], [6e-6, 0, 3e-6])
    np.testing.assert_allclose(spent["airtime_s"], [7e-6, 0, 7e-6])
    np.testing.assert_allclose(spent["compute_j"], [6, 8, 10])
    total = event_spending(two_events(), spent, 3, shared=True)
    np.testing.assert_allclose(total["energy_j"], [0, 6e-6, 0, 3e-6])
    np.testing.assert_allclose(total["airtime_s"], [0, 7e-6, 0, 7e-6])
    np.testing.assert_allclose(total["compute_j"], [0, 14, 0, 10])
    assert symbols(7, air(packing="complex")) == 4


def test_digital_cost_by_hand():
    """Computing time excludes the upload; the band seconds of an event add up."""
    sending = uploads(devices=2)
    cost = sending(np.array([0, 1, 1]), np.array([0, 0, 1]))
    nan = np.full(3, np.nan)
    spent = device_spending(
        two_events(),
        nan,
        block_symbols=100,
        air=air(digital="ofdma"),
        costs=Costs(compute_power_w=2.0, uploads=sending),
    )
    np.testing.assert_allclose(spent["compute_j"], 2 * (np.array([3, 4, 5]) - cost.wait_s))
    total = event_spending(two_events(), spent, 3, shared=False)
    np.testing.assert_allclose(total["airtime_s"], [0, cost.band_s[:2].sum(), 0, cost.band_s[2]])
    np.testing.assert_allclose(total["energy_j"], [0, cost.energy_j[:2].sum(), 0, cost.energy_j[2]])


def test_aborted_work_costs_what_it_had_used_up():
    """Stopped at 1, 3.9 and 9 s: while computing; in the middle of the upload, or just before its end; never."""
    sending = uploads(devices=2)
    cost = sending(np.array([0, 1, 1]), np.array([0, 0, 1]))
    middle_s = 4.0 - cost.wait_s[1] / 4
    spent = device_spending(
        two_events(), np.full(3, np.nan), block_symbols=100, air=air(digital="ofdma"),
        costs=Costs(compute_power_w=2.0, uploads=sending), stopped_s=np.array([1.0, middle_s, 9.0]),
    )  # fmt: skip
    np.testing.assert_allclose(spent["compute_j"], 2 * np.array([1, 4 - cost.wait_s[1], 5 - cost.wait_s[2]]))
    np.testing.assert_allclose(spent["energy_j"], [0, 0.75, 1] * cost.energy_j, rtol=1e-6)
    np.testing.assert_allclose(spent["band_s"], [0, 0.75, 1] * cost.band_s, rtol=1e-6)


def test_a_run_counts_its_aborted_work():
    """Twelve start, six count. All draw 1 W from the start to the end of the round, or of its training."""
    table = {**SMALL, "rounds": 2, "algorithms": [{"name": "threshold", "participants": 6, "selected": 12}]}
    run = paota.run(table).trajectories[0]
    assert run.metrics["aborted"].tolist() == [0, 6, 6]
    counted = np.bincount(run.devices["round"], weights=run.devices["compute_j"])
    length_s = np.diff(run.metrics["time_s"])
    np.testing.assert_allclose(run.metrics["compute_j"][1:], counted[1:] + 6 * length_s)
    np.testing.assert_allclose(run.metrics["energy_j"].sum(), run.devices["energy_j"].sum(), rtol=1e-6)


def test_ideal_uploads_are_not_accounted():
    nan = np.full(3, np.nan)
    spent = device_spending(two_events(), nan, block_symbols=9, air=air(), costs=Costs(compute_power_w=1.0))
    total = event_spending(two_events(), spent, 3, shared=False)
    assert np.isnan(total["energy_j"]).all()
    assert np.isnan(total["airtime_s"]).all()


def test_the_program_is_told_the_time():
    rows, count = inputs_of(two_events(), 1, ProgramShape(places=2, versions=2, events=4), np.zeros(3, bool))
    assert count == 2
    np.testing.assert_allclose(rows.time_s[:count], [5.0, 9.0])


HARSH = {
    "fading": "jakes", "path_loss": "umi", "antennas": 2, "packing": "complex",
    "csi_error": 0.01, "phase_error_rad": 0.1, "timing_error_symbols": 0.1,
}  # fmt: skip
SMALL = {
    "rounds": 8,
    "model": {"name": "softmax"},
    "data": {"dataset": "synthetic", "devices": 12, "sizes": [60]},
    "power": {"cap": "physical"},
    "algorithms": [{"name": "paota", "payload": "update"}],
}


def test_a_harsh_air_gives_the_same_bits_in_any_chunks():
    one = paota.run({**SMALL, "air": HARSH}, events_per_call=3)
    other = paota.run({**SMALL, "air": HARSH}, events_per_call=8)
    np.testing.assert_array_equal(one.trajectories[0].model, other.trajectories[0].model)
    assert one.trajectories[0].metrics["test_accuracy"][-1] > 0.15
    metrics = one.trajectories[0].metrics
    spent = one.trajectories[0].devices
    np.testing.assert_allclose(metrics["energy_j"].sum(), spent["energy_j"].sum(), rtol=1e-6)
    np.testing.assert_allclose(spent["energy_j"], spent["transmit_power_w"] / 20e6, rtol=1e-6)
    assert metrics["over_budget"][1:].max() == 0


def test_absent_errors_are_not_part_of_the_program():
    """None is structure, a number is an input: a sweep over csi_error compiles once."""
    given, other, absent = (as_tree(air(csi_error=value)) for value in (0.3, 0.4, None))
    assert jax.tree.structure(given) == jax.tree.structure(other) != jax.tree.structure(absent)
    assert set(jax.tree.leaves(given)) - set(jax.tree.leaves(absent)) == {0.3}
