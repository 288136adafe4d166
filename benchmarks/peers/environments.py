"""The virtual environments of the peers, one for each set of packages that must not meet.

    python benchmarks/peers/environments.py [--folder DIR] [NAME ...]

Standard library only. What pip is told (an index, PyTorch's builds without CUDA) comes from pip's own settings.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

DEFAULT_FOLDER = Path(os.environ.get("PAOTA_PEERS_DIR", "~/.cache/paota/peers")).expanduser()
TORCH = ("torch==2.13.0", "numpy")

# Each entry is a list of `pip install` calls. torch comes first and alone, so that no framework brings another build
# of it; frameworks come without their dependencies where these would, and what they import follows by name.
ENVIRONMENTS: Mapping[str, Sequence[Sequence[str]]] = {
    "torch": [TORCH, ("setuptools",)],
    "jax": [("jax==0.10.2", "numpy")],
    "fedjax": [("fedjax==0.0.17", "jax==0.4.38", "jaxlib==0.4.38", "numpy<2.3")],
    "flower": [TORCH, ("flwr[simulation]==1.41.0",)],
    "fedlab": [
        TORCH, ("setuptools<81", "wheel"), ("--no-deps", "--no-build-isolation", "fedlab==1.3.0"),
        ("pillow", "tqdm", "pynvml", "pandas", "scikit-learn", "munch"),
    ],
    "pfl": [
        TORCH, ("--no-deps", "pfl==0.6.0"),
        ("multiprocess", "scipy", "packaging", "dp-accounting", "prv-accountant"),
    ],
    "flgo": [
        TORCH, ("--no-deps", "flgo==0.4.4"),
        ("pillow", "tqdm", "scipy", "matplotlib", "prettytable", "ujson", "pynvml", "pyyaml", "networkx", "requests",
         "toolz", "setuptools<81"),
    ],
}  # fmt: skip


def python_of(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def create(name: str, folder: Path) -> str:
    """Make one environment; returns what went wrong, or nothing. A finished one carries a mark and is left alone."""
    environment = folder / name
    mark = environment / "installed"
    wanted = repr(ENVIRONMENTS[name])
    if mark.is_file() and mark.read_text() == wanted:
        return ""
    venv.create(environment, with_pip=True)
    for packages in ENVIRONMENTS[name]:
        command = [str(python_of(environment)), "-m", "pip", "install", "--quiet", *packages]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
            return f"pip install {' '.join(packages)}: {lines[-1] if lines else 'failed'}"
    mark.write_text(wanted)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *ENVIRONMENTS], help="which (default: all)")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help=f"where (default: {DEFAULT_FOLDER})")
    args = parser.parse_args()
    failures = 0
    for name in args.names or ENVIRONMENTS:
        problem = create(name, args.folder)
        failures += bool(problem)
        print(f"{name}: {problem or 'ready'}", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
