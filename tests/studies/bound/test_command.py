"""`paota bound` in the terminal."""

from __future__ import annotations

import json

from paota.cli import main


def test_bound_command(tmp_path, capsys):
    settings = ["--set", "data.dataset=synthetic", "--set", "data.devices=8", "--set", "data.sizes=[20]"]
    settings += ["--set", "rounds=2"]  # before, 30 rounds were run whatever was said
    assert main(["bound", *settings, "--probes", "1", "--out", str(tmp_path / "b"), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["system"]["devices"] == 8
    assert len(made["rounds"]["gap"]) == 3
    assert (tmp_path / "b" / "bound.csv").read_text().startswith("round,gap,")
    for wrong in (["--label", "nobody"], [str(tmp_path)], ["--rounds", "0"]):
        assert main(["bound", *wrong]) == 2
        assert capsys.readouterr().err.startswith("paota: ")


def test_bound_command_says_which_form_counts(tmp_path, capsys):
    settings = [
        "bound", "--rounds", "3", "--probes", "1", "--set", "data.dataset=synthetic", "--set", "data.devices=8",
        "--set", "data.sizes=[20]", "--set", "model.name=softmax",
        "--set", 'algorithms=[{name="paota",payload="update"},{name="fedasync"}]',
    ]  # fmt: skip
    assert main([*settings]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "…" not in said  # 80 columns are enough
    for words in ("sigma: sqrt of", "terms of the dependent G", "depend on the updates that they weigh"):
        assert words in said
    assert "staleness alone" not in said
    assert main([*settings, "--label", "fedasync"]) == 2
    assert "weights that sum to 1" in capsys.readouterr().err
