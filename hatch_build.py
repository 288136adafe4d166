"""Wheels with the kernels inside, for people without a C++ compiler.

    PAOTA_WHEEL_KERNELS=1 pip wheel --no-deps .

compiles them for several levels of processors (`LEVELS` in `paota.training.kernels.build`), of which a run takes the
best that its processor knows. Without the variable the wheel is pure Python, and a kernel is compiled when it is first
needed.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Nothing of the compiler has to be installed where the wheel is used.
LINKING = ("-static-libstdc++", "-static-libgcc", "-s")


class Kernels(BuildHookInterface[Any]):
    """Adds a library for each kernel and level to a wheel."""

    def dependencies(self) -> list[str]:
        """JAX brings the headers of the interface."""
        wanted = [line for line in self.metadata.core.dependencies if line.startswith(("jax<", "jax>"))]
        return wanted if _wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or not _wanted():
            return
        sys.path.insert(0, str(Path(self.root) / "src"))
        from paota.training.kernels import build

        self.folder = folder = Path(tempfile.mkdtemp(prefix="paota-kernels-"))
        compiler = build.find_compiler()
        for level in build.LEVELS[platform.machine()]:
            for name in build.NAMES:
                file = folder / f"{name}-{level}.so"
                build.build(compiler, name, file, (f"-march={level}",), LINKING)
                build_data["force_include"][str(file)] = f"paota/training/kernels/shipped/{file.name}"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


def _wanted() -> bool:
    return os.environ.get("PAOTA_WHEEL_KERNELS", "0") not in ("", "0")
