"""Every rule against values worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paota.algorithms.air_fedga import AirFedGa
from paota.algorithms.baa import Baa
from paota.algorithms.cotaf import Cotaf
from paota.algorithms.fedasync import FedAsync, staleness_weight
from paota.algorithms.fedbuff import FedBuff
from paota.algorithms.majority_vote import MajorityVote
from paota.algorithms.paota import Paota
from paota.algorithms.threshold import FullPower, Threshold, inversion_level
from paota.algorithms.tt_fed import TtFed
from paota.power.settings import Power

PHYSICAL = Power(cap="physical")


def noise(size, power_w):
    return np.asarray(jax.random.normal(jax.random.key(0), (size,))) * np.sqrt(power_w / 2)


def test_staleness_functions():
    x = jnp.array([0, 3, 4, 5, 6])
    np.testing.assert_allclose(staleness_weight("constant", x, 0.5, 4.0), 1.0)
    np.testing.assert_allclose(staleness_weight("polynomial", x, 0.5, 4.0)[:2], [1, 1 / 2], rtol=1e-6)
    # 1 up to b = 4, then 1 / (a (x - b) + 1): 1/11 and 1/21; without the +1 it would start at 1/10.
    np.testing.assert_allclose(staleness_weight("hinge", x, 10.0, 4.0), [1, 1, 1, 1 / 11, 1 / 21], rtol=1e-6)


def test_fedasync_mixes_one_model(play, air):
    """a_t = 0.6 (1+3)^-0.5 = 0.3: 0.7 (1, 1) + 0.3 (2, -1) = (1.3, 0.4)."""
    outcome = play(FedAsync(), [[1.0, -2.0]], air([1]), staleness=[3])
    np.testing.assert_allclose(outcome.model, [1.3, 0.4], rtol=1e-6)
    np.testing.assert_allclose(outcome.weight, [0.3], rtol=1e-6)


def test_fedasync_factor_is_never_cumulative(play, air):
    """Ten arrivals of the same staleness each move the model by the same share: 1 - 0.7^10 of the way in all."""
    model = jnp.array([0.0])
    for _ in range(10):
        model = play(
            FedAsync(), [[0.0]], air([1]), model=model, previous_model=model, staleness=[3], local_models=[[1.0]]
        ).model
    np.testing.assert_allclose(model, [1 - 0.7**10], rtol=1e-5)


def test_fedasync_hinge(play, air):
    """Staleness 5 beyond b = 4: a_t = 0.5 / (10 + 1)."""
    rule = FedAsync(mixing=0.5, staleness="hinge", a=10.0, b=4.0)
    outcome = play(rule, [[11.0, 22.0]], air([1]), staleness=[5])
    np.testing.assert_allclose(outcome.model, [1.5, 2.0], rtol=1e-6)


def test_fedbuff_divides_by_the_buffer_size(play, air):
    """tau = 0, 3, 8, 15: discounts 1, 1/2, 1/3, 1/4. (4 + 8/2 + 12/3 + 16/4) / 4 = 4, times eta_g = 2."""
    updates = [[4.0, 0.0], [8.0, 0.0], [12.0, 0.0], [0.0, 16.0]]
    rule = FedBuff(buffer_size=4, server_learning_rate=2.0)
    outcome = play(rule, updates, air([1] * 4), staleness=[0, 3, 8, 15])
    np.testing.assert_allclose(outcome.model, [1 + 2 * 12 / 4, 1 + 2 * 4 / 4], rtol=1e-6)
    np.testing.assert_allclose(outcome.weight, [1 / 4, 1 / 8, 1 / 12, 1 / 16], rtol=1e-6)


def test_tt_fed_balances_the_tiers(play, air):
    """Tier 1: 300 (2, 0) + 100 (6, 0) = 400 (3, 0). Tier 3 counts threefold: 3 * 200 (0, 8). The last entry is padding."""
    models = jnp.array([[2.0, 0.0], [6.0, 0.0], [0.0, 8.0], [99.0, 99.0]])
    outcome = play(
        TtFed(), np.zeros((4, 2)), air([1] * 4), local_models=models,
        staleness=[0, 0, 2, 0], num_samples=[300.0, 100, 200, 500], ready=[True, True, True, False],
    )  # fmt: skip
    np.testing.assert_allclose(outcome.model, [0.4 * 3, 0.6 * 8], rtol=1e-6)
    np.testing.assert_allclose(outcome.weight, [0.3, 0.1, 0.6, 0.0], rtol=1e-6)


def test_air_fedga(play, air):
    """c = 15/300, p = (15, 5), wbar = 3/4 w_1 + 1/4 w_2; b_t = 0.6 (1+3)^-1/2 = 0.3. The noise is divided by 20."""
    rule, updates = AirFedGa(mixing=0.6), [[4.0, 0.0], [0.0, 8.0]]
    outcome = play(rule, updates, air([2j, 0.5], noise_power_w=0.5), staleness=[3, 3], num_samples=[300.0, 100.0])
    np.testing.assert_allclose(outcome.amplitude, [15, 5], rtol=1e-6)
    np.testing.assert_allclose(outcome.model, [1 + 0.3 * 3, 1 + 0.3 * 2] + 0.3 * noise(2, 0.5) / 20, rtol=1e-5)
    np.testing.assert_allclose(outcome.weight, [0.225, 0.075], rtol=1e-5)
    np.testing.assert_allclose(outcome.noise_std, 0.3 * 0.5 / 20, rtol=1e-5)
    np.testing.assert_allclose(outcome.transmit_power_w, [15**2 / 4 * (25 + 1), 5**2 / 0.25 * (1 + 81)], rtol=1e-5)


def test_baa_silences_deep_fades(play, air):
    """|h|^2 = 1, 0.25, 4 against g_th = 0.5: the second is silent, the others count alike."""
    outcome = play(Baa(threshold=0.5), [[2.0, 0.0], [50.0, 50.0], [0.0, 6.0]], air([1, 0.5j, -2]), Power(cap="paper"))
    np.testing.assert_allclose(outcome.model, [2.0, 4.0], rtol=1e-6)
    np.testing.assert_allclose(outcome.amplitude, [15, 0, 15])
    np.testing.assert_allclose(outcome.transmit_power_w, [225 * (9 + 1), 0, 225 / 4 * (1 + 49)], rtol=1e-5)


def test_baa_keeps_the_budget(play, air):
    """sqrt(rho0) = min sqrt(0.5 * 15) / |payload| = sqrt(7.5) / 6; at the threshold that is exactly P."""
    weak, strong = np.sqrt(0.5) * (1 + 1e-6), 2.0  # a hair above, or rounding would decide
    outcome = play(Baa(threshold=0.5, payload="update"), [[2.0, 0.0], [0.0, 6.0]], air([strong, weak]), PHYSICAL)
    np.testing.assert_allclose(outcome.amplitude, np.sqrt(7.5) / 6, rtol=1e-5)
    np.testing.assert_allclose(outcome.transmit_power_w, [7.5 / 36 * 4 / 4, 15.0], rtol=1e-5)
    np.testing.assert_allclose(outcome.model, [2.0, 4.0], rtol=1e-5)


def test_baa_threshold_is_relative_to_the_path_gain(play, air):
    """A device 80 dB down that is not faded sends; one that is faded by 20 dB does not."""
    far = air([1e-4, 1e-5], mean_gain=jnp.array([1e-8, 1e-8]))
    np.testing.assert_allclose(play(Baa(threshold=0.5), [[2.0, 0], [4.0, 0]], far).weight, [1, 0])


def test_baa_schedules_the_interior_of_the_cell(play, air):
    """Losses of 60 and 100 dB against 80 dB: the second stays silent, and the level is what the first can afford."""
    cell = air([1e-3, 1e-5], mean_gain=jnp.array([1e-6, 1e-10]))
    rule = Baa(threshold=0.5, payload="update", interior_loss_db=80.0)
    outcome = play(rule, [[2.0, 0.0], [0.0, 6.0]], cell, PHYSICAL)
    np.testing.assert_allclose(outcome.weight, [1, 0])
    np.testing.assert_allclose(outcome.amplitude, [np.sqrt(0.5 * 1e-6 * 15) / 2, 0], rtol=1e-5)


def test_cotaf_with_the_expected_norm(play, air):
    """|dw|^2 = 1, 9, of which 5 and 1 were known: E = 3, 5, so p_t = 15/5. The second device is above its 15 W this time.

    The last place is padding, which names device 0 and must not touch what is known of it.
    """
    rule, updates = Cotaf(norm="expected"), [[1.0, 0.0], [0.0, 3.0], [9.0, 9.0]]
    ready = [True, True, False]
    air_of = air([1, 1, 1], ready=ready)
    known = {"state": jnp.array([5.0, 1.0, 7.0, 0.0]), "device": [0, 1, 0], "ready": ready}
    outcome = play(rule, updates, air_of, **known)
    np.testing.assert_allclose(outcome.amplitude, [np.sqrt(3.0), np.sqrt(3.0), 0], rtol=1e-6)
    np.testing.assert_allclose(outcome.transmit_power_w, [3, 27, 0], rtol=1e-6)
    np.testing.assert_allclose(outcome.model, [1.5, 2.5], rtol=1e-6)
    np.testing.assert_allclose(outcome.state, [3, 5, 7, 0], rtol=1e-6)


def test_cotaf_expects_what_it_hears_first(play, air):
    """Nothing is known yet: p_t = 15 / max(1, 9), the same as with the largest norm."""
    updates = [[1.0, 0.0], [0.0, 3.0]]
    first = play(Cotaf(norm="expected"), updates, air([1, 1]))
    np.testing.assert_allclose(first.amplitude, np.sqrt(15 / 9), rtol=1e-6)
    np.testing.assert_allclose(first.amplitude, play(Cotaf(), updates, air([1, 1])).amplitude, rtol=1e-6)
    np.testing.assert_allclose(first.state, [1, 9, 0, 0], rtol=1e-6)


def test_baa_with_everybody_silent_changes_nothing(play, air):
    outcome = play(Baa(threshold=0.5), [[2.0, 0.0]], air([0.1], noise_power_w=1.0))
    np.testing.assert_array_equal(outcome.model, [1.0, 1.0])


def test_majority_vote(play, air):
    """Signs (+, -), (+, +), (-, -) with a fourth in a deep fade: + wins the first weight by 2 to 1, - the second.

    All send two symbols of size 1: the common amplitude is that of the weakest sender, sqrt(15 / 2).
    """
    updates = [[0.1, -9.0], [0.2, 0.3], [-50.0, -0.1], [-9.0, 9.0]]
    outcome = play(MajorityVote(step=0.5), updates, air([1, 2j, -3, 0.1]), PHYSICAL)
    np.testing.assert_allclose(outcome.model, [1.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(outcome.amplitude, [np.sqrt(7.5)] * 3 + [0], rtol=1e-6)
    np.testing.assert_allclose(outcome.transmit_power_w, [15, 15 / 4, 15 / 9, 0], rtol=1e-5)


def test_full_power_weighs_by_the_channel(play, air):
    """p = |h| sqrt(15) / |payload| = sqrt(15) (2/4, 1/1): weights 1/3 and 2/3, both at exactly 15 W."""
    outcome = play(FullPower(payload="update"), [[4.0, 0.0], [0.0, 1.0]], air([2, 1j]))
    np.testing.assert_allclose(outcome.weight, [1 / 3, 2 / 3], rtol=1e-6)
    np.testing.assert_allclose(outcome.model, [1 + 4 / 3, 1 + 2 / 3], rtol=1e-5)
    np.testing.assert_allclose(outcome.transmit_power_w, [15, 15], rtol=1e-5)


def test_threshold_inverts_where_it_can(play, air):
    """P = 1, |dw| = 1: q = |h| = (1, 2, 4). Signal power a symbol 1/2, so sigma^2 = 1 counts as (1/2)/(1/2) = 1.

    Ratios (1+1)/1 = 2, (1+1+4)/3 = 2, (1+1+4+16)/7 = 3.1: t = 2, p = (1, 2, 2), and y is divided by n t = 6.
    """
    updates = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    outcome = play(Threshold(), updates, air([1, 2j, -4], noise_power_w=1.0, max_power_w=1.0), PHYSICAL)
    np.testing.assert_allclose(outcome.amplitude, [1, 2, 2], rtol=1e-5)
    expected = np.array([1 + (1 + 2 * 0.6) / 6, 1 + (2 + 2 * 0.8) / 6]) + noise(2, 1.0) / 6
    np.testing.assert_allclose(outcome.model, expected, rtol=1e-5)
    np.testing.assert_allclose(outcome.weight, [1 / 6, 2 / 6, 2 / 6], rtol=1e-5)
    np.testing.assert_allclose(outcome.transmit_power_w, [1, 1, 0.25], rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_threshold_level_has_the_least_error(seed):
    """Against the error itself on a fine grid."""
    rng = np.random.default_rng(seed)
    quality, variance = rng.exponential(size=12), rng.exponential()
    ready = rng.random(12) < 0.8
    t = float(inversion_level(jnp.array(quality), jnp.array(ready), jnp.array(variance)))

    def error(level):
        p = np.minimum(level, quality[ready])
        return np.sum((p / level - 1) ** 2) + variance / level**2

    grid = np.linspace(0.05, 30, 20_000)
    assert error(t) <= min(error(level) for level in grid) * (1 + 1e-5)


@pytest.mark.parametrize(
    ("method", "amplitudes"),
    [("staleness", [15, 7.5]), ("similarity", [7.5, 15]), ("uniform", [15, 15])],
)
def test_paota_ablations(play, air, method, amplitudes):
    """Fresh but across (rho 1, theta 1/2), and stale by 3 but aligned (rho 1/2, theta 1)."""
    outcome = play(
        Paota(payload="update"),
        [[1.0, 0.0], [0.0, 1.0]],
        air([1, 1j]),
        Power(cap="paper", method=method),
        staleness=[0, 3],
    )
    np.testing.assert_allclose(outcome.amplitude, amplitudes, rtol=1e-6)


def test_paota_under_the_physical_cap(play, air):
    """p_max = |h| sqrt(15) / |payload|; uniform power takes the smaller of sqrt(15)/2 and 2 sqrt(15)/1."""
    outcome = play(
        Paota(payload="update"), [[2.0, 0.0], [0.0, 1.0]], air([1, 2j]), Power(cap="physical", method="uniform")
    )
    np.testing.assert_allclose(outcome.amplitude, np.sqrt(15) / 2, rtol=1e-6)
    np.testing.assert_allclose(outcome.transmit_power_w, [15, 15 / 16], rtol=1e-5)
