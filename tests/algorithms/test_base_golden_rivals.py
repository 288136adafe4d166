"""Queues, programmes, votes and tiers against values worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.timelines import grouped, oldest_first, tiered

from paota import aggregate_by_hand
from paota.algorithms.age_based import AgeBased
from paota.algorithms.age_top_k import AgeTopK, Coordinates
from paota.algorithms.air_fedga import AirFedGa
from paota.algorithms.biased_ota import BiasedOta
from paota.algorithms.energy_aware import EnergyAware, Queues, cheapest
from paota.algorithms.fedat import FedAt, TierModels
from paota.algorithms.majority_vote import FskVote
from paota.algorithms.sa_airfed import SaAirFed, least_error
from paota.algorithms.saota import Saota, balanced
from paota.algorithms.threshold import Threshold, regularised_level
from paota.algorithms.tt_fed import TtFed
from paota.power.settings import Power
from paota.timing.latency import Latencies, PerDevice
from paota.timing.timeline import Horizon

PHYSICAL = Power(cap="physical")


def fixed(*seconds):
    return Latencies(PerDevice(seconds=seconds), devices=len(seconds), seed=0)


def by_event(timeline):
    return [timeline.device[a:b].tolist() for a, b in zip(timeline.offsets, timeline.offsets[1:], strict=False)]


def test_saota_balances_power_and_debts(play, air):
    """P = 1, |dw| = |h| = 1. No debt: p = 1. Q = 5/1.6875 at a mean of 5 W: V a = 1.6875, p = 1.6875 / 1.5^3 = 1/2, S = 1.5.

    Then device 0 has radiated 1 of 5 W and owes nothing, device 1 owes 0.25/5 - 1 more, device 2, away, 1 less.
    """
    queues = Queues(jnp.array([0.0, 5 / 1.6875, 1.5, 0.2]), jnp.array(20))
    outcome = play(Saota(tradeoff=1.0), [[1.0, 0.0], [0.0, 1.0]], air([1, 1j], max_power_w=1.0), PHYSICAL, state=queues)
    np.testing.assert_allclose(outcome.amplitude, [1, 0.5], rtol=1e-5)
    np.testing.assert_allclose(outcome.model, [1 + 2 / 3, 1 + 1 / 3], rtol=1e-5)
    np.testing.assert_allclose(outcome.state.debt, [0, 5 / 1.6875 + 0.05 - 1, 0.5, 0], rtol=1e-5)
    assert outcome.state.round == 21


def test_debts_fall_in_rounds_without_senders(play, air):
    """Made up at round 17, asked in round 20: 3 rounds have gone by, and each pays back one mean."""
    queues = Queues(jnp.array([5 / 1.6875 + 3, 3.0, 0.0, 4.5]), jnp.array(17))
    lone = play(Saota(tradeoff=1.0), [[1.0, 0.0]], air([1]), PHYSICAL, state=queues, ready=False)
    np.testing.assert_array_equal(lone.state.debt, queues.debt)  # no device sends, so the state does not change
    outcome = play(Saota(tradeoff=1.0), [[1.0, 0.0], [0.0, 1.0]], air([1, 1], max_power_w=1.0), PHYSICAL, state=queues)
    np.testing.assert_allclose(outcome.amplitude, [0.5, 1], rtol=1e-5)  # as in the test before, the two changed over
    np.testing.assert_allclose(outcome.state.debt, [5 / 1.6875 + 0.05 - 1, 0, 0, 0.5], rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_saota_minimises_its_objective(seed):
    """V / S^2 + sum_k p_k^2 / a_k is not lower anywhere else in the box."""
    rng = np.random.default_rng(seed)
    a, p_max, v = rng.exponential(size=5), rng.exponential(size=5) + 0.1, 10.0 ** rng.uniform(-1, 2)

    def objective(p):
        return v / p.sum(axis=-1) ** 2 + (p**2 / a).sum(axis=-1)

    best = np.asarray(balanced(jnp.array(v * a), jnp.array(p_max)))
    assert objective(best) <= objective(rng.random((20_000, 5)) * p_max).min() * (1 + 1e-6)
    near = np.clip(best * rng.uniform(0.98, 1.02, (2000, 5)), 0, p_max)
    assert objective(best) <= objective(near).min() * (1 + 1e-6)


def test_the_cheapest_set():
    """V = 2: 2 + 0.1, 1 + 0.6, 2/3 + 3.6: the two cheapest; the fourth is cheaper but not able."""
    sends = cheapest(jnp.array([3.0, 0.1, 0.5, 0.0]), jnp.array([True, True, True, False]), 2.0)
    assert sends.tolist() == [False, True, True, False]
    assert not cheapest(jnp.array([1.0]), jnp.array([False]), 2.0).any()


@pytest.mark.parametrize(("tradeoff", "senders"), [(2.0, [1, 0, 0]), (10.0, [1, 1, 0])])
def test_energy_aware_scheduling(play, air, tradeoff, senders):
    """Level sqrt(0.25) = 1/2; at |h| = 1 and 0.6 it takes 1/4 and 25/36 W, 1 and 2.78 times the mean; 0.4 cannot.

    Debts 0 and 1: alone V + 0, both V/2 + 2.78.
    """
    rule = EnergyAware(mean_power_w=0.25, threshold=0.25, tradeoff=tradeoff)
    updates = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    queues = Queues(jnp.array([0.0, 1.0, 5.0, 0.0]), jnp.array(20))
    outcome = play(rule, updates, air([1, 0.6j, 0.4], max_power_w=1.0), PHYSICAL, state=queues)
    np.testing.assert_allclose(outcome.amplitude, 0.5 * np.array(senders), rtol=1e-6)
    np.testing.assert_allclose(outcome.transmit_power_w, [0.25, senders[1] * 25 / 144 / 0.25, 0], rtol=1e-5)
    np.testing.assert_allclose(outcome.state.debt, [0, senders[1] * 25 / 9, 4, 0], rtol=1e-5)


def test_sa_airfed_discounts_the_stale(play, air):
    """There is no noise: alpha_0 - alpha_1 = 0.5/2 * 2 / 2 = 1/4: 5/8 and 3/8, the louder one at its 15."""
    outcome = play(SaAirFed(staleness=0.5), [[8.0, 0.0], [0.0, 8.0]], air([1, 1j]), staleness=[0, 2])
    np.testing.assert_allclose(outcome.weight, [5 / 8, 3 / 8], rtol=1e-5)
    np.testing.assert_allclose(outcome.amplitude, [15, 9], rtol=1e-4)
    np.testing.assert_allclose(outcome.model, [6, 4], rtol=1e-5)


def test_sa_airfed_pays_for_noise(play, air):
    """Caps 1 and 3, N = d sigma^2 / (2 |dw|^2) = 1: alpha = (t, 1 - t), 2t - 2(1 - t) + 2t = 0, so t = 1/3 and p = (1, 2)."""
    outcome = play(SaAirFed(), [[2.0, 0.0], [0.0, 2.0]], air([1, 3], noise_power_w=4.0, max_power_w=4.0), PHYSICAL)
    np.testing.assert_allclose(outcome.weight, [1 / 3, 2 / 3], rtol=1e-5)
    np.testing.assert_allclose(outcome.amplitude, [1, 2], rtol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_sa_airfed_against_a_solver(seed):
    from scipy.optimize import minimize

    rng = np.random.default_rng(seed)
    price, p_max, noise = 0.1 * rng.integers(0, 4, 6), rng.exponential(size=6) + 0.05, rng.exponential()

    def error(x):
        return np.sum(x[:-1] ** 2) + price @ x[:-1] + noise * x[-1] ** 2

    start = np.append(p_max / p_max.sum(), 1 / p_max.sum())
    limits = [
        {"type": "eq", "fun": lambda x: x[:-1].sum() - 1},
        {"type": "ineq", "fun": lambda x: x[-1] * p_max - x[:-1]},
    ]
    reference = minimize(error, start, bounds=[(0, None)] * 7, constraints=limits, method="SLSQP")
    alpha, t = least_error(jnp.array(price), jnp.array(p_max), jnp.array(noise))
    assert error(np.append(alpha, t)) == pytest.approx(reference.fun, rel=1e-4)
    assert np.all(np.asarray(alpha) <= np.asarray(t) * p_max * (1 + 1e-4))


def test_biased_ota_takes_the_least_noise(play, air):
    """P = 2, G = 1: gamma = 1 where |h|^2 >= 1/2. (3, 4) is shortened to (0.6, 0.8), the second is silent, and y is
    divided by the mean 2 exp(-1/2).
    """
    outcome = play(BiasedOta(), [[3.0, 4.0], [0.0, 1.0]], air([1, 0.6j], max_power_w=2.0))
    divisor = 2 * np.exp(-0.5)
    np.testing.assert_allclose(outcome.amplitude, [1, 0], rtol=1e-6)
    np.testing.assert_allclose(outcome.model, [1 + 0.6 / divisor, 1 + 0.8 / divisor], rtol=1e-6)
    np.testing.assert_allclose(outcome.transmit_power_w, [1, 0], rtol=1e-6)


def test_biased_ota_without_bias(play, air):
    """Mean gains 1 and e^(1/2)/2: x exp(-x^2) = sqrt(e^(1/2)/2) sqrt(1/2) exp(-1/2) at x = 1/2 for the near one.

    Both then arrive with sqrt(2)/2 exp(-1/4) on average.
    """
    cell = air([1.0, 1.0], max_power_w=2.0, mean_gain=jnp.array([1.0, np.exp(0.5) / 2]))
    outcome = play(BiasedOta(design="unbiased"), [[1.0, 0.0], [0.0, 1.0]], cell)
    far = np.sqrt(2 * np.exp(0.5) / 2) * np.sqrt(0.5)
    np.testing.assert_allclose(outcome.amplitude, [np.sqrt(2) / 2, far], rtol=1e-3)  # flat where it is largest
    np.testing.assert_allclose(outcome.weight, outcome.amplitude / (np.sqrt(2) * np.exp(-0.25)), rtol=1e-5)


def test_biased_ota_is_right_on_average(play, air):
    """Over 4000 draws of Rayleigh channels the weights of the unbiased design have the mean 1/2 each."""
    gain = jnp.array([1.0, 0.01])

    @jax.jit
    def weight(key):
        h = jnp.sqrt(gain / 2) * jax.lax.complex(*jax.random.normal(key, (2, 2)))
        return play(BiasedOta(design="unbiased"), [[1.0], [1.0]], air([1, 1])._replace(channel=h, mean_gain=gain),
                    model=(0.0,), previous_model=(0.0,)).weight  # fmt: skip

    weights = jax.vmap(weight)(jax.random.split(jax.random.key(1), 4000))
    np.testing.assert_allclose(weights.mean(axis=0), [0.5, 0.5], atol=0.03)


def test_fedat_counts_rare_tiers_more(play, air):
    """The quick tier has come 3 times and the slow one once; now the quick one again, 3/4 (4, 0) + 1/4 (8, 0) = (5, 0).

    T = 4 and 1: the quick tier counts 1/5, the slow one 4/5.
    """
    state = TierModels(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([3.0, 1.0]))
    outcome = play(
        FedAt(tiers=2), np.zeros((2, 2)), air([1, 1]), local_models=[[4.0, 0.0], [8.0, 0.0]],
        num_samples=[300.0, 100.0], state=state, group=0,
    )  # fmt: skip
    np.testing.assert_allclose(outcome.model, [1, 3.2], rtol=1e-6)
    np.testing.assert_allclose(outcome.weight, [0.15, 0.05], rtol=1e-6)
    np.testing.assert_allclose(outcome.state.model, [[5, 0], [0, 4]])
    np.testing.assert_allclose(outcome.state.times, [4, 1])


def test_fedat_waits_for_the_slowest_as_printed(play, air):
    outcome = play(FedAt(tiers=2), [[4.0, 0.0]], air([1]), group=0)
    np.testing.assert_allclose(outcome.model, [1, 1])
    np.testing.assert_allclose(outcome.state.model, [[5, 1], [1, 1]])


def test_events_of_tiers_are_numbered_by_speed():
    """Devices of 1, 6, 2, 5 s in two groups: {0, 2} every 2 s, {1, 3} every 6 s."""
    latencies = fixed(1.0, 6.0, 2.0, 5.0)
    timeline = grouped(latencies, groups=2, updates=12, horizon=Horizon(rounds=3))
    assert timeline.group.tolist() == [0, 0, 0, 1, 0, 0]
    assert timeline.part(3, 2).group.tolist() == [1, 0]


def test_air_fedga_denoises(play, air):
    """p = (15, 5), D = 400, sqrt(eta) D = 20 + d sigma^2 / (2 * 20 |wbar|^2) = 20 + 4 / (20 * 4); the models have length 2."""
    outcome = play(
        AirFedGa(denoising=True), np.zeros((2, 2)), air([1, 1], noise_power_w=4.0),
        local_models=[[2.0, 0.0], [0.0, 2.0]], num_samples=[300.0, 100.0],
    )  # fmt: skip
    np.testing.assert_allclose(outcome.weight, 0.6 * np.array([15, 5]) / 20.05, rtol=1e-5)


def test_the_oldest_first():
    """Two of five a round: after two rounds four have come; in the third comes the fifth with one of the first two."""
    rounds = by_event(oldest_first(fixed(1.0, 2.0, 3.0, 4.0, 5.0), participants=2, horizon=Horizon(rounds=3)))
    assert len({*rounds[0], *rounds[1]}) == 4
    (fifth,) = set(range(5)) - {*rounds[0], *rounds[1]}
    assert fifth in rounds[2]
    assert {*rounds[2]} - {fifth} <= {*rounds[0]}
    assert AgeBased(participants=2).scheme.participants == 2


def test_tt_fed_undoes_a_part_of_the_bias_towards_fast_tiers(play, air):
    """Three devices of tier 1 and one of tier 2. Alone the three have 1/3 each; beside the fourth, which counts twice, 1/5.

    In two periods a quick device has 1/3 + 1/5 = 8/15 and the slow one 2/5; without the factor, 1/3 + 1/4 and 1/4.
    """
    timeline = tiered(fixed(4.0, 4.0, 4.0, 12.0), period_s=8.0, horizon=Horizon(rounds=4))
    assert by_event(timeline) == [[0, 1, 2], [0, 1, 2, 3]] * 2
    total = np.zeros(4)
    for begin, end in zip(timeline.offsets, timeline.offsets[1:], strict=False):
        n = end - begin
        outcome = play(TtFed(), np.zeros((n, 2)), air([1] * n), staleness=timeline.staleness[begin:end])
        total[timeline.device[begin:end]] += outcome.weight
    np.testing.assert_allclose(total / 2, [8 / 15, 8 / 15, 8 / 15, 2 / 5], rtol=1e-6)


def test_age_based_takes_the_plain_mean(play, air):
    """w + ((2, 0) + (0, 4))/2, whatever the devices hold; the third is padding."""
    outcome = play(
        AgeBased(), [[2.0, 0.0], [0.0, 4.0], [99.0, 99.0]], air([1, 1, 1]), num_samples=[300.0, 100.0, 5.0],
        ready=[True, True, False],
    )  # fmt: skip
    np.testing.assert_allclose(outcome.model, [2, 3], rtol=1e-6)
    np.testing.assert_allclose(outcome.weight, [0.5, 0.5, 0], rtol=1e-6)


def test_the_oldest_are_waited_for():
    timeline = oldest_first(fixed(1.0, 2.0), participants=2, horizon=Horizon(rounds=None, duration_s=5.0))
    np.testing.assert_allclose(timeline.time_s, [2, 4])
    assert timeline.training.tolist() == [0, 0, 1, 1]
    assert timeline.max_staleness == 0


def test_age_top_k_sends_what_was_chosen(play, air):
    """k = 1 of 4: only the first weight is sent and heard. Then two never sent ones are candidates, the first goes."""
    rule = AgeTopK(kept=0.25, candidates=0.5)
    outcome = play(
        rule,
        [[2.0, 9, 9, 9], [4.0, 9, 9, 9]],
        air([1, 1], noise_power_w=0.0),
        model=[0.0] * 4,
        previous_model=[0.0] * 4,
    )
    np.testing.assert_allclose(outcome.model, [3, 0, 0, 0])
    assert outcome.state.chosen.tolist() == [False, True, False, False]
    assert outcome.state.age.tolist() == [0, 1, 1, 1]
    np.testing.assert_allclose(outcome.transmit_power_w, 15**2 * np.array([4, 16]), rtol=1e-6)
    assert rule.symbols(4, False) == 1
    assert rule.symbols(40, True) == 5


@pytest.mark.parametrize(("candidates", "next_one"), [(0.5, 2), (0.25, 1)])
def test_age_top_k_takes_the_oldest_of_the_largest(play, air, candidates, next_one):
    """Sizes 0.1, 3, 2 and (just heard) 1: the two largest are 1 and 2, and 2 was sent before 1. Top-k takes 1."""
    rule = AgeTopK(kept=0.25, candidates=candidates)
    state = Coordinates(jnp.array([0, 0, 0, 1], bool), jnp.array([5.0, 1, 3, 0]), jnp.array([0.1, 3, 2, 7]))
    outcome = play(rule, [[1.0] * 4], air([1]), model=[0.0] * 4, previous_model=[0.0] * 4, state=state)
    assert np.flatnonzero(outcome.state.chosen).tolist() == [next_one]
    np.testing.assert_allclose(outcome.state.size, [0.1, 3, 2, 1], rtol=1e-6)


def test_fsk_vote_of_one(play, air):
    """Up, down, and no vote where nothing changed; two votes of unit energy at 15 W, whatever the channel."""
    outcome = play(FskVote(step=0.5), [[0.1, -9.0, 0.0]], air([2j]), model=[1.0] * 3, previous_model=[1.0] * 3)
    np.testing.assert_allclose(outcome.model, [1.5, 0.5, 1.0])
    np.testing.assert_allclose(outcome.transmit_power_w, [15], rtol=1e-5)
    np.testing.assert_allclose(outcome.amplitude, [2 * np.sqrt(15 / 2)], rtol=1e-5)
    assert FskVote().symbols(100, True) == 200


def test_fsk_votes_are_counted_by_energy(air):
    """30 up, 10 down: sums of many random phases have energies like 30 and 10 times an exponential draw: up wins 3 of 4."""
    d = 4000
    updates = np.where(np.arange(40)[:, None] < 30, 1.0, -1.0) * np.ones((40, d))
    outcome = aggregate_by_hand(FskVote(step=1.0), updates, uplink=air(np.exp(1j * np.arange(40))))
    assert np.mean(np.asarray(outcome.model) > 0) == pytest.approx(0.75, abs=0.03)


def test_threshold_in_fading_regularises(play, air):
    """Prices 1 and 4: p = t q^2 / (q^2 + mu t^2), q = (1, 2); the server divides by 2 t. Then prices learn."""
    rule = Threshold(fading=True, price_step=0.3)
    price = jnp.array([1.0, 4.0, 2.0, 2.0])
    uplink = air([1, 2j], noise_power_w=1.0, max_power_w=1.0)
    outcome = play(rule, [[1.0, 0.0], [0.0, 1.0]], uplink, PHYSICAL, state=price)
    p = np.asarray(outcome.amplitude)
    t = float((p / (2 * np.asarray(outcome.weight)))[0])
    np.testing.assert_allclose(p, [t / (1 + t**2), 4 * t / (4 + 4 * t**2)], rtol=1e-4)
    power = (p / [1, 2]) ** 2
    np.testing.assert_allclose(outcome.transmit_power_w, power, rtol=1e-4)
    np.testing.assert_allclose(outcome.state, [*(price[:2] * np.exp(0.3 * (power - 1))), 2, 2], rtol=1e-4)


def test_the_regularised_level_has_the_least_error():
    rng = np.random.default_rng(0)
    q, price, noise = rng.exponential(size=9), rng.exponential(size=9), 0.3
    t = float(regularised_level(jnp.array(q), jnp.array(price), jnp.ones(9, bool), jnp.array(noise)))

    def error(level):
        return np.sum(price * level**2 / (q**2 + price * level**2)) + noise / level**2

    assert error(t) <= min(error(level) for level in np.geomspace(0.01, 100, 20_000)) * (1 + 1e-3)


def test_prices_learn_to_keep_the_budget_on_average(air):
    """Two devices in Rayleigh fading, 20 dB apart, loud noise: in the last 1000 of 1500 rounds both radiate about P."""
    rule, gain = Threshold(fading=True, price_step=0.05), jnp.array([1.0, 0.01])

    def round_(price, key):
        h = jnp.sqrt(gain / 2) * jax.lax.complex(*jax.random.normal(key, (2, 2)))
        uplink = air([1, 1], noise_power_w=10.0, max_power_w=1.0)._replace(channel=h)
        outcome = aggregate_by_hand(rule, jnp.eye(2), uplink=uplink, power=PHYSICAL, state=price)
        return outcome.state, outcome.transmit_power_w

    _, power = jax.lax.scan(round_, jnp.ones(2), jax.random.split(jax.random.key(0), 1500))
    np.testing.assert_allclose(power[500:].mean(axis=0), [1, 1], atol=0.1)
