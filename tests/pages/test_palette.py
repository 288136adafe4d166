"""The colours are tested, not believed: contrast against the page, and distance for colour-blind eyes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from paota.pages import palette

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
DEFICIENCIES = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
TO_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(colour: str) -> np.ndarray:
    part = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio."""
    luminance = sorted(float(np.dot([0.2126, 0.7152, 0.0722], linear(colour))) for colour in (one, other))
    return (luminance[1] + 0.05) / (luminance[0] + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    scaled = np.array(TO_XYZ) @ np.clip(rgb, 0, 1) / WHITE
    root = np.where(scaled > (6 / 29) ** 3, np.cbrt(scaled), scaled / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def test_contrast_of_black_on_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_stand_out_from_the_page(theme: str) -> None:
    for colour in palette.SERIES[theme]:
        assert contrast(colour, palette.CHROME[theme]["card"]) >= 3, colour


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_can_be_read(theme: str) -> None:
    chrome = palette.CHROME[theme]
    for word, ground in itertools.product(("text", "muted", "accent", "good", "middling", "alert"), ("page", "card")):
        assert contrast(chrome[word], chrome[ground]) >= 4.5, (word, ground)
    for text, bar in zip(palette.STALENESS_TEXT[theme], palette.STALENESS[theme], strict=True):
        assert contrast(text, bar) >= 3, bar


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_the_first_four_colours_differ_for_colour_blind_eyes(theme: str, deficiency: str) -> None:
    seen = [lab(np.array(DEFICIENCIES[deficiency]) @ linear(colour)) for colour in palette.SERIES[theme][:4]]
    for one, other in itertools.combinations(range(4), 2):
        # 10 is several times the difference that an eye just notices.
        assert np.linalg.norm(seen[one] - seen[other]) > 10, (one, other)


def test_every_series_has_a_style_of_its_own() -> None:
    one_run = palette.style_of([(0, f"label {i}") for i in range(palette.MOST_SERIES)])
    assert len(set(one_run)) == palette.MOST_SERIES
    three_runs = [(run, label) for run in range(3) for label in ("paota", "local-sgd", "cotaf")]
    styles = palette.style_of(three_runs)
    assert len(set(styles)) == 9
    # The same label keeps its colour from run to run, the same run its dash.
    assert {style[0] for style, (_, label) in zip(styles, three_runs, strict=True) if label == "cotaf"} == {2}
    assert {style[1] for style, (run, _) in zip(styles, three_runs, strict=True) if run == 1} == {"dash"}
    many = [(run, label) for run in range(8) for label in "abcd"]
    assert len(set(palette.style_of(many))) == 32
