"""Convert the rays of a DeepMIMO scenario into a file for `air.fading = "file"`.

    pip install deepmimo
    python examples/channels/deepmimo_file.py asu_campus_3p5 --devices 100 --out campus.npz

The base station is the server. Devices are users of the scenario that have at least one path, at random.
"""

import argparse

import numpy as np


def convert(
    power_dbw: np.ndarray, phase_deg: np.ndarray, delay_s: np.ndarray, *, devices: int, paths: int, seed: int
) -> dict[str, np.ndarray]:
    """Return a[1, 1, devices, 1, paths, 1] and tau[1, devices, paths] from DeepMIMO's arrays [users, paths].

    Powers are in dBW for a transmitter of 1 W. Paths that do not exist are NaN. Receiver 0 is the server.
    """
    there = np.isfinite(power_dbw)
    users = np.random.default_rng(seed).permutation(np.flatnonzero(there.any(axis=1)))[:devices]
    if len(users) < devices:
        raise SystemExit(f"the scenario has paths to {len(users)} users only: lower --devices")
    size = np.where(there, 10 ** (np.where(there, power_dbw, 0.0) / 20), 0.0)[users]
    strongest = np.argsort(-size, axis=1)[:, :paths]
    size, phase, delay = (np.take_along_axis(x, strongest, axis=1) for x in (size, phase_deg[users], delay_s[users]))
    a = size * np.exp(1j * np.deg2rad(np.nan_to_num(phase)))
    return {
        "a": a[None, None, :, None, :, None].astype(np.complex64),
        "tau": np.nan_to_num(delay)[None].astype(np.float32),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--out", default="deepmimo.npz")
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--paths", type=int, default=16, help="strongest paths to keep")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()

    import deepmimo

    rays = deepmimo.load(chosen.scenario)
    arrays = convert(rays.power, rays.phase, rays.delay, devices=chosen.devices, paths=chosen.paths, seed=chosen.seed)
    np.savez_compressed(chosen.out, **arrays)
    print(f"{chosen.out}: {chosen.devices} devices")
