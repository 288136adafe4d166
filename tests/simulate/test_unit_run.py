"""`paota.run` in a script or notebook: folders, interruptions, and what must not be ignored silently."""

import os
import signal
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

import paota
from paota import UserError
from paota.base.registry import refuse_misspelt_hooks

TABLE = {
    "rounds": 40, "model": {"name": "softmax"}, "data": {"dataset": "synthetic", "devices": 6, "sizes": [30]},
    "training": {"local_steps": 2, "batch_size": 8}, "algorithms": [{"name": "paota"}, {"name": "local-sgd"}],
}  # fmt: skip

pytestmark = pytest.mark.usefixtures("clean_registries")


@pytest.fixture(scope="module")
def whole():
    return paota.run(TABLE, seeds=[3, 1])


def press_ctrl_c_in(number):
    pressed = []

    def press(round):
        if round.round == number and not pressed:
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    return press


def test_an_interrupted_run_carries_its_rounds(whole):
    before = signal.getsignal(signal.SIGINT)  # a shell's job in the background ignores it
    with pytest.raises(KeyboardInterrupt) as stopped:
        paota.run(TABLE, seeds=[3, 1], callbacks=[press_ctrl_c_in(5)], events_per_call=2)
    assert isinstance(stopped.value, paota.RunInterrupted)
    assert "sys.last_value.result" in str(stopped.value)
    result = stopped.value.result
    assert max(len(t.metrics["round"]) for t in result.trajectories) > 4
    for t in result.trajectories:
        full = next(f for f in whole.of(t.label) if f.seed == t.seed).metrics["test_loss"]
        np.testing.assert_array_equal(t.metrics["test_loss"], full[: len(t.metrics["round"])])
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_with_a_folder_continues(whole, tmp_path):
    with pytest.raises(paota.RunInterrupted, match=r"paota\.run\(\.\.\., resume='.*mine'\) continues"):
        paota.run(TABLE, seeds=[3, 1], callbacks=[press_ctrl_c_in(5)], events_per_call=2, out=tmp_path / "mine")
    with pytest.raises(UserError, match=r"holds another run: experiment.rounds was 40 and is 50"):
        paota.run({**TABLE, "rounds": 50}, resume=tmp_path / "mine")
    with pytest.raises(UserError, match="is not empty"):
        paota.run(TABLE, out=tmp_path / "mine")
    with pytest.raises(UserError, match="give it without out"):
        paota.run(TABLE, out=tmp_path / "other", resume=tmp_path / "mine")
    result = paota.run(resume=tmp_path / "mine")
    again = paota.run(TABLE, resume=tmp_path / "mine")  # finished: nothing is computed
    for made in (result, again, paota.load(tmp_path / "mine")):
        assert made.seeds == [3, 1] == whole.seeds
        np.testing.assert_array_equal(made.array("paota", "test_loss"), whole.array("paota", "test_loss"))
    assert (tmp_path / "mine" / "report.html").is_file()
    assert not (tmp_path / "mine" / "checkpoints").exists()


@dataclass(frozen=True, kw_only=True)
class Told(paota.SynchronousAlgorithm):
    """Local SGD that says how far its model is from zero."""

    payload = "update"
    over_the_air = False

    def amplitudes(self, event, uplink, power):
        return paota.weights(paota.normalise(event.ready.astype(float)), event)

    def next_model(self, event, heard):
        step = super().next_model(event, heard)
        return step._replace(metrics={"length": jnp.linalg.norm(step.model)})


def test_own_metrics_become_columns(tmp_path):
    paota.register("algorithm", "told", Told)

    def doubled(round):
        if round.evaluated:
            round.metrics["twice the loss"] = 2 * round.test_loss

    seen = []
    table = {**TABLE, "rounds": 6, "algorithms": [{"name": "told"}]}
    prefix = [doubled, lambda round: seen.append(round.metrics["twice the loss"])]
    with pytest.raises(paota.RunInterrupted):
        paota.run(table, callbacks=[*prefix, press_ctrl_c_in(2)], events_per_call=2, out=tmp_path / "r")
    result = paota.run(table, callbacks=prefix, resume=tmp_path / "r")
    np.testing.assert_array_equal(result.array("told", "twice the loss"), 2 * result.array("told", "test_loss"))
    assert seen[-7:] == result.array("told", "twice the loss")[0].tolist()
    length = result.array("told", "length")[0]
    assert length[-1] == pytest.approx(np.linalg.norm(result.trajectories[0].model), rel=1e-5)
    assert np.isnan(length[0])
    loaded = paota.load(tmp_path / "r")
    for name in ("length", "twice the loss"):
        np.testing.assert_array_equal(loaded.array("told", name), result.array("told", name))
        assert loaded.plot(name).data
    assert "Own metrics" in (tmp_path / "r" / "report.html").read_text()


def test_a_recorded_column_is_not_overwritten():
    def wrong(round):
        round.metrics["test_accuracy"] = 1.0

    with pytest.raises(paota.CallbackError, match="'test_accuracy', which is no name of its own"):
        paota.run(TABLE, callbacks=[wrong])

    @dataclass(frozen=True, kw_only=True)
    class Wrong(Told):
        def next_model(self, event, heard):
            return super().next_model(event, heard)._replace(metrics={"round": 1.0})

    paota.register("algorithm", "wrong", Wrong)
    with pytest.raises(UserError, match="next_model of Wrong gives a metric 'round'"):
        paota.run({**TABLE, "algorithms": [{"name": "wrong"}]})


def test_misspelt_hooks_are_refused():
    class Listener(paota.Callback):
        def on_round(self, round): ...

    with pytest.raises(UserError, match=r"the callback Listener has a method on_round, which is never called.*'round'"):
        paota.run(TABLE, callbacks=[Listener()])
    for name, meant in (("reports", "report"), ("next_step", "next_model"), ("rember", "remember")):
        wrong = dataclass(frozen=True, kw_only=True)(type("Wrong", (Told,), {name: lambda self, work: {}}))
        with pytest.raises(UserError, match=f"has a method {name}, which is never called: did you mean '{meant}'"):
            paota.register("algorithm", "wrong", wrong)
    refuse_misspelt_hooks(type("Right", (Told,), {"_reports": lambda self: {}, "helper": lambda self: {}}), "it")


def test_bare_amplitudes_get_a_sentence_and_a_short_traceback():
    @dataclass(frozen=True, kw_only=True)
    class Bare(Told):
        def amplitudes(self, event, uplink, power):
            return event.num_samples

    paota.register("algorithm", "bare", Bare)
    with pytest.raises(UserError, match=r"amplitudes of Bare must return paota\.average\(p, event\)") as refused:
        paota.run({**TABLE, "algorithms": [{"name": "bare"}]})
    assert len(refused.traceback) == 2  # this test, and paota.run
