"""Compile a kernel of this folder for this very processor, once, into the user's cache folder."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..caches import cache_folder, writable

# Strict IEEE arithmetic stays on (no -ffast-math): results must not depend on what the optimiser feels like.
FLAGS = ("-std=c++17", "-fPIC", "-w")
# Two parts, compiled side by side: that somebody waits for it once is no reason to let him wait long.
PARTS = {"{}.cc": "-O3", "{}_ffi.cc": "-O1"}
TIMEOUT_S = 120
HERE = Path(__file__).parent


class CannotBuild(Exception):
    """Why there is no kernel, in a few words."""


@functools.cache
def library(name: str) -> ctypes.CDLL:
    """The library compiled from `name`.cc and `name`_ffi.cc; `CannotBuild` if that is impossible here."""
    compiler = _compiler()
    file = _folder() / f"{name}-{_fingerprint(name, compiler)}.so"
    if not file.exists():
        _build(compiler, name, file)
    try:
        return ctypes.CDLL(str(file))
    except OSError as error:
        raise CannotBuild(f"the compiled kernel cannot be loaded: {error}") from None


def _compiler() -> str:
    for candidate in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        if candidate and (found := shutil.which(candidate)):
            return found
    raise CannotBuild("no C++ compiler found")


def _folder() -> Path:
    folder = cache_folder() / "kernels"
    return folder if writable(folder) else Path(_temporary_folder().name)


@functools.cache
def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """For this process alone, where no cache folder can be written."""
    return tempfile.TemporaryDirectory(prefix="paota-kernels-")


def _fingerprint(name: str, compiler: str) -> str:
    """Changes with source, compiler, JAX's interface and processor: many machines may share a home folder."""
    from importlib.metadata import version

    sources = [file.read_text() for file in sorted([*HERE.glob(f"{name}*.cc"), *HERE.glob("*.h")])]
    parts = [*sources, compiler, *_version(compiler), version("jaxlib"), _processor(), *FLAGS, *PARTS.values()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def _version(compiler: str) -> tuple[str, ...]:
    try:
        stat = Path(compiler).resolve().stat()
    except OSError as error:
        raise CannotBuild(f"{compiler}: {error.strerror}") from None
    return str(stat.st_size), str(stat.st_mtime_ns)


def _processor() -> str:
    """What `-march=native` depends on."""
    wanted = ("model name", "flags", "Features", "CPU part")
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        found = {line for line in lines if line.startswith(wanted)}
    except OSError:
        found = {platform.processor()}
    return "\n".join([platform.system(), platform.machine(), *sorted(found)])


def _build(compiler: str, name: str, file: Path) -> None:
    import jax

    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=file.parent) as folder:
        for native in (["-march=native"], []):  # some compilers know no `native`
            flags = [*FLAGS, *native, "-isystem", jax.ffi.include_dir()]
            objects = {part.format(name): Path(folder) / part.format(name).replace(".cc", ".o") for part in PARTS}
            compiling = [
                [compiler, *flags, level, "-c", str(HERE / source), "-o", str(objects[source])]
                for source, level in zip(objects, PARTS.values(), strict=True)
            ]
            library = Path(folder) / "library.so"
            try:
                with ThreadPoolExecutor() as pool:
                    list(pool.map(_call, compiling))
                _call([compiler, "-shared", *map(str, objects.values()), "-o", str(library)])
            except (subprocess.SubprocessError, OSError) as error:
                failure = CannotBuild(f"{compiler} failed: {_first_line(error)}")
            else:
                library.replace(file)  # whole or not at all, whoever else is compiling
                return
        raise failure


def _call(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)


def _first_line(error: Exception) -> str:
    output = getattr(error, "stderr", None) or b""
    lines = [line for line in output.decode(errors="replace").splitlines() if "error" in line]
    return (lines or [str(error)])[0][:200]
