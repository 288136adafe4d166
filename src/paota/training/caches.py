"""The user's cache folder of compiled programs and kernels, so that a second start does not compile.

A lost cache, or a folder that cannot be written, costs time only.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

MAX_BYTES = 512 * 2**20


def cache_folder() -> Path:
    """Return `PAOTA_CACHE_DIR`, else `paota` in the system's folder for caches."""
    if explicit := os.environ.get("PAOTA_CACHE_DIR"):
        return Path(explicit).expanduser()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).expanduser() / "paota"
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "paota" / "cache"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/paota").expanduser()
    return Path("~/.cache/paota").expanduser()


def writable(folder: Path) -> bool:
    """Return True if `folder` exists or can be made, and takes files. Failure is no error."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def use_compile_cache() -> None:
    """Let JAX keep compiled programs on disk, unless the user has set JAX's own cache folder."""
    import jax  # start-up time

    if getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    folder = cache_folder() / "programs"
    if not writable(folder):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # JAX's defaults keep only programs that took over a second; ours take less each, and there are several.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    _keep_small(folder)


def _keep_small(folder: Path) -> None:
    """Delete the least recently used files beyond MAX_BYTES; another process may do the same."""
    files = []
    for file in folder.iterdir():
        with contextlib.suppress(OSError):
            stat = file.stat()
            files.append((max(stat.st_atime_ns, stat.st_mtime_ns), stat.st_size, file))
    excess = sum(size for _, size, _ in files) - MAX_BYTES
    for _, size, file in sorted(files):
        if excess <= 0:
            return
        with contextlib.suppress(OSError):
            file.unlink()
        excess -= size
