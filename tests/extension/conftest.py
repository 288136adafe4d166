import pytest

from paota.base import plugins
from paota.base.registry import KINDS


@pytest.fixture(autouse=True)
def clean_registries(monkeypatch):
    """What a test registers is gone after it."""
    for registry in KINDS.values():
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    monkeypatch.setattr(plugins, "_LOADED", {})
