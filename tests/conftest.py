"""Shared set-up: one cache of compiled programs per session, and quick compilation.

The tests compile hundreds of small programs. XLA therefore does not optimise them, and generates fused loops the old way
where that is still possible, in a sixth of the time. `PAOTA_TEST_OPTIMISE=1 pytest ...` tests the programs that users run.
`.ci/run` does so for the tests of equal bits (`-m bits`), the only ones that depend on it.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile

import pytest
from helpers.browser import Browser, find_chromium
from hypothesis import HealthCheck, settings

# Slow examples and slow draws do not fail a test on a busy machine.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

if "PAOTA_TEST_CACHE" not in os.environ:  # worker processes inherit their parent's
    folder = tempfile.mkdtemp(prefix="paota-test-cache-")
    os.environ["PAOTA_TEST_CACHE"] = os.environ["PAOTA_CACHE_DIR"] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

QUICK_COMPILATION = ("--xla_backend_optimization_level=0", "--xla_cpu_use_fusion_emitters=false")


def known_to_xla(flag: str) -> bool:
    """Return whether the installed XLA accepts `flag`. A subprocess tries it, because XLA aborts on an unknown flag."""
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    tried = subprocess.run(command, env={**os.environ, "XLA_FLAGS": flag, "JAX_PLATFORMS": "cpu"}, capture_output=True)
    return tried.returncode == 0


if os.environ.get("PAOTA_TEST_OPTIMISE") != "1" and "xla_backend_optimization_level" not in os.environ.get(
    "XLA_FLAGS", ""
):  # worker processes inherit the flags
    quickly = [flag for flag in QUICK_COMPILATION if known_to_xla(flag)]
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *quickly]).strip()


@pytest.fixture(scope="module", autouse=True)
def nothing_stays_registered():
    """Remove everything that a module's tests registered, and the plug-ins that they loaded."""
    from paota.base import plugins, registry

    kept = [(vars(thing), "_things") for thing in vars(registry).values() if isinstance(thing, registry.Registry)]
    kept.append((vars(plugins), "_LOADED"))
    before = [dict(holder[name]) for holder, name in kept]
    yield
    loaded = [module for module in plugins._LOADED.values() if module not in before[-1].values()]
    for name in [name for name, module in sys.modules.items() if module in loaded]:
        del sys.modules[name]  # or its file would count as imported already
    for (holder, name), things in zip(kept, before, strict=True):
        holder[name].clear()
        holder[name].update(things)


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: several tests wait for processes that they have started."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture
def clean_registries(monkeypatch):
    """Remove everything that a test registers, after it."""
    from paota.base import plugins
    from paota.base.registry import KINDS

    for registry in KINDS.values():
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    monkeypatch.setattr(plugins, "_LOADED", {})


@pytest.fixture(scope="module")
def browser():
    """One browser for each module of page tests."""
    executable = find_chromium()
    if executable is None:
        pytest.skip("no Chromium or Chrome on this machine: the page cannot be opened in a browser")
    with Browser(executable) as opened:
        yield opened
