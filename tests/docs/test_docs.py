"""The docs name every algorithm with every option, and the table's figures are put together rightly."""

import dataclasses
import importlib.util
import re
from pathlib import Path

import pytest

import paota
from paota.air.settings import Air
from paota.base.registry import ALGORITHMS, CHANNELS, DIGITAL_UPLINKS, PATH_LOSSES

pytestmark = pytest.mark.usefixtures("clean_registries")

ROOT = Path(__file__).parents[2]
ALGORITHMS_PAGE = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
AIR_PAGE = (ROOT / "docs" / "air.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_has_a_section_with_its_options_and_source(name):
    section = ALGORITHMS_PAGE.partition(f"### `{name}`\n")[2].partition("\n#")[0]
    assert "**Rule:**" in section
    assert "**Source:**" in section
    for option in dataclasses.fields(ALGORITHMS[name]):
        assert f"`{option.name}`" in section, f"{name}.{option.name}"


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_stands_beside_its_scheme(name):
    page = (ROOT / "docs" / "timing.md").read_text(encoding="utf-8").partition("## Scheme")[2]
    scheme = type(ALGORITHMS[name]().scheme).__name__
    assert re.search(rf"^\| `{scheme}` \|.*\|[^|]*`{name}`[^|]*\|[^|]*\|$", page, re.MULTILINE)


def test_every_word_of_the_air_is_documented():
    for option in dataclasses.fields(Air):
        assert option.name in AIR_PAGE
    for registry in (CHANNELS, PATH_LOSSES, DIGITAL_UPLINKS):
        for name in registry:
            assert name in AIR_PAGE
            for option in dataclasses.fields(registry[name]):
                assert option.name in AIR_PAGE


def test_every_public_name_is_on_the_page_of_the_interface():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    types = {"Report"}  # what the page shows in signatures
    assert [name for name in paota.__all__ if name not in types and not re.search(rf"\b{name}\b", page)] == []
    for name in paota.__all__:
        assert getattr(paota, name).__doc__ or name in types


def test_the_page_of_commands_is_up_to_date():
    """Write it again with: python docs/_build/commands.py > docs/commands.md"""
    spec = importlib.util.spec_from_file_location("commands_page", ROOT / "docs" / "_build" / "commands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == module.markdown()


def test_the_pages_of_the_notebooks_are_up_to_date():
    """Write them again with: python docs/_build/notebooks.py"""
    spec = importlib.util.spec_from_file_location("notebook_pages", ROOT / "docs" / "_build" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for notebook in module.NOTEBOOKS:
        page, pictures = module.markdown(notebook)
        assert (ROOT / "docs" / f"notebook-{notebook.stem}.md").read_text(encoding="utf-8") == page
        assert all((ROOT / "docs" / "img" / name).read_bytes() == content for name, content in pictures.items())
