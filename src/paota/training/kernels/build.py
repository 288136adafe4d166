"""The kernels of this folder as libraries: those of the wheel, or compiled for this processor on first use.

Compiled libraries stay in the user's cache folder.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ...base.system import only_one
from ..caches import cache_folder, writable

# Strict IEEE arithmetic stays on (no -ffast-math): results must not depend on the compiler's optimisations.
FLAGS = ("-std=c++17", "-fPIC", "-w")
# Two parts, compiled side by side, because the user waits for them once.
PARTS = {"{}.cc": "-O3", "{}_ffi.cc": "-O1"}
NAMES = ("mlp", "convolution")
TIMEOUT_S = 900  # a busy machine may need this long; beyond, the compiler hangs
HERE = Path(__file__).parent
SHIPPED = HERE / "shipped"  # filled by `hatch_build.py`, in wheels with kernels
# Targets of a wheel, best first: name for `-march`, and the flags that /proc/cpuinfo must list.
LEVELS: dict[str, dict[str, set[str]]] = {
    "x86_64": {
        "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "fma"},
        "x86-64-v3": {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"},
        "x86-64": set(),
    },
    "aarch64": {"armv8-a": set()},
}

logger = logging.getLogger("paota")


class CannotBuild(Exception):
    """The reason why there is no kernel, in a few words."""


class TooSlow(CannotBuild):
    """The compiler took too long; other flags would not help."""


def library(name: str) -> ctypes.CDLL:
    """Return the library of `name`.cc and `name`_ffi.cc; raise `CannotBuild` if it cannot be compiled here.

    The first failure logs a warning, because runs become slower without any other sign.
    """
    found = outcome(name)
    if isinstance(found, CannotBuild):
        raise found
    return found


@functools.cache
def register(name: str, targets: tuple[tuple[str, str], ...]) -> None:
    """Register functions of a library with JAX as (name of the FFI target, name of the function), once per process."""
    import jax  # start-up time

    found = library(name)
    for target, function in targets:
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(found, function)), platform="cpu")


@functools.cache
def outcome(name: str) -> ctypes.CDLL | CannotBuild:
    """Return the library, or the reason why there is none, once per process."""
    try:
        file = shipped(name) or _compiled(name)
        return ctypes.CDLL(str(file))
    except OSError as error:
        failure = CannotBuild(f"the compiled kernel cannot be loaded: {error}")
    except CannotBuild as error:
        failure = error
    logger.warning(
        "paota: the quick kernel is missing (%s), which makes training several times slower; install g++ or clang++, "
        "or a wheel of paota that brings the kernel (docs/speed.md).",
        failure,
    )
    return failure


def shipped(name: str) -> Path | None:
    """Return the installed library for the best of `LEVELS` that this processor has, if any."""
    known = _features()
    for level, needs in LEVELS.get(platform.machine(), {}).items():
        if needs <= known and (file := SHIPPED / f"{name}-{level}.so").exists():
            return file
    return None


def build(compiler: str, name: str, file: Path, compiling: tuple[str, ...] = (), linking: tuple[str, ...] = ()) -> None:
    """Compile and link a kernel to `file`, with further flags, or raise `CannotBuild`; needs JAX's headers."""
    import jax  # start-up time

    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=file.parent) as folder:
        flags = [*FLAGS, *compiling, "-isystem", jax.ffi.include_dir()]
        objects = {part.format(name): Path(folder) / part.format(name).replace(".cc", ".o") for part in PARTS}
        commands = [
            [compiler, *flags, level, "-c", str(HERE / source), "-o", str(objects[source])]
            for source, level in zip(objects, PARTS.values(), strict=True)
        ]
        whole = Path(folder) / "library.so"
        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(_call, commands))
            _call([compiler, "-shared", *linking, *map(str, objects.values()), "-o", str(whole)])
        except subprocess.TimeoutExpired:
            raise TooSlow(f"{compiler} took more than {TIMEOUT_S} s") from None
        except (subprocess.SubprocessError, OSError) as error:
            raise CannotBuild(f"{compiler} failed: {_first_line(error)}") from None
        whole.replace(file)  # whole or not at all, also if another process compiles


def _compiled(name: str) -> Path:
    """Return the library in the cache, compiled if it is missing or damaged.

    Its name ends with the checksum of its content: a truncated library loads, and ends the process when used.
    """
    compiler = find_compiler()
    folder, stem = _folder(), f"{name}-{_fingerprint(name, compiler)}"
    if file := _kept(folder, stem):
        return file
    with only_one(folder, patient=True):  # of the processes of a sweep, one builds it
        if file := _kept(folder, stem):
            return file
        logger.warning("paota: building the quick kernel '%s' for this processor, once: some seconds", name)
        new = folder / f".{stem}.{os.getpid()}.so"
        try:
            build(compiler, name, new, ("-march=native",))
        except TooSlow:
            raise
        except CannotBuild:  # some compilers know no `native`
            build(compiler, name, new)
        return new.replace(folder / f"{stem}-{_checksum(new)}.so")


def _kept(folder: Path, stem: str) -> Path | None:
    for file in folder.glob(f"{stem}-*.so"):
        if file.stem == f"{stem}-{_checksum(file)}":
            return file
        logger.warning("paota: '%s' is damaged and compiled again", file)
        file.unlink(missing_ok=True)
    return None


def _checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:20]


def find_compiler() -> str:
    """Return the C++ compiler that `CXX` names, else a usual one; raise `CannotBuild` if there is none."""
    for candidate in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        if candidate and (found := shutil.which(candidate)):
            return found
    raise CannotBuild("no C++ compiler found")


def _folder() -> Path:
    folder = cache_folder() / "kernels"
    return folder if writable(folder) else Path(_temporary_folder().name)


@functools.cache
def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for this process alone, for machines without a writable cache folder."""
    return tempfile.TemporaryDirectory(prefix="paota-kernels-")


def _fingerprint(name: str, compiler: str) -> str:
    """Return a hash of source, compiler, JAX's interface and processor: machines may share a home folder."""
    from importlib.metadata import version  # start-up time

    sources = [file.read_text() for file in sorted([*HERE.glob(f"{name}*.cc"), *HERE.glob("*.h")])]
    parts = [*sources, compiler, *_version(compiler), version("jaxlib"), _processor(), *FLAGS, *PARTS.values()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def _features() -> set[str]:
    """Return the processor's flags as the system lists them; empty if it does not list them."""
    return set(next((line for line in _cpuinfo() if line.startswith("flags")), ":").split(":")[1].split())


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def _version(compiler: str) -> tuple[str, ...]:
    try:
        stat = Path(compiler).resolve().stat()
    except OSError as error:
        raise CannotBuild(f"{compiler}: {error.strerror}") from None
    return str(stat.st_size), str(stat.st_mtime_ns)


def _processor() -> str:
    """Return a description of the processor, on which `-march=native` depends."""
    wanted = ("model name", "flags", "Features", "CPU part")
    lines = _cpuinfo()
    found = {line for line in lines if line.startswith(wanted)} if lines else {platform.processor()}
    return "\n".join([platform.system(), platform.machine(), *sorted(found)])


def _call(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)


def _first_line(error: Exception) -> str:
    output = getattr(error, "stderr", None) or b""
    lines = [line for line in output.decode(errors="replace").splitlines() if "error" in line]
    return (lines or [str(error)])[0][:200]
