import pytest

from paota import plugins
from paota.registry import KINDS


@pytest.fixture(autouse=True)
def clean_registries(monkeypatch):
    """What a test registers is gone after it."""
    for registry in KINDS.values():
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    monkeypatch.setattr(plugins, "_LOADED", {})
