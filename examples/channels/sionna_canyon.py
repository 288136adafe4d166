"""Trace the channels of a street canyon with Sionna RT, and write them as a file for `air.fading = "file"`.

    pip install sionna-rt
    python examples/channels/sionna_canyon.py --out examples/channels/canyon.npz

The server stands above the street of Sionna's scene `simple_street_canyon`. Devices stand on the street at random places and
walk along it. Their paths are traced once. During the walk each path keeps its delay and turns by its Doppler frequency.
Sionna RT computes on the CPU with LLVM; if it does not find a recent one, set DRJIT_LIBLLVM_PATH to a libLLVM.so.
"""

import argparse

import numpy as np


def trace(devices: int, times: int, step_s: float, paths: int, seed: int) -> dict[str, np.ndarray]:
    """Return a[num_rx, 1, 1, 1, paths, times] and tau[num_rx, 1, paths] of the strongest paths to each device."""
    from sionna.rt import PathSolver, PlanarArray, Receiver, Transmitter, load_scene, scene

    street = load_scene(scene.simple_street_canyon)
    street.frequency = 3.5e9
    street.tx_array = street.rx_array = PlanarArray(
        num_rows=1, num_cols=1, vertical_spacing=0.5, horizontal_spacing=0.5, pattern="iso", polarization="V"
    )
    street.add(Transmitter("server", [-30.0, 0.0, 12.0]))
    rng = np.random.default_rng(seed)
    for k in range(devices):
        device = Receiver(f"device {k}", [rng.uniform(-60, 60), rng.uniform(-6, 6), 1.5])
        device.velocity = [float(rng.choice([-1.5, 1.5])), 0.0, 0.0]  # m/s, along the street
        street.add(device)
    found = PathSolver()(street, max_depth=3, seed=seed + 1)
    a, tau = found.cir(sampling_frequency=1 / step_s, num_time_steps=times, normalize_delays=False, out_type="numpy")
    strongest = np.argsort(-np.abs(a[:, 0, 0, 0, :, 0]), axis=1)[:, :paths]  # [num_rx, paths]
    a = np.take_along_axis(a, strongest[:, None, None, None, :, None], axis=4)
    tau = np.take_along_axis(tau, strongest[:, None, :], axis=2)
    return {"a": a.astype(np.complex64), "tau": np.where(tau < 0, 0, tau).astype(np.float32)}  # no path: a = 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="canyon.npz")
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--times", type=int, default=24)
    parser.add_argument("--step-s", type=float, default=8.0, help="seconds between two times")
    parser.add_argument("--paths", type=int, default=16, help="strongest paths to keep")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    arrays = trace(chosen.devices, chosen.times, chosen.step_s, chosen.paths, chosen.seed)
    np.savez_compressed(chosen.out, **arrays)
    gain_db = 10 * np.log10(np.sum(np.abs(arrays["a"]) ** 2, axis=(1, 2, 3, 4))[:, 0])
    print(f"{chosen.out}: {len(gain_db)} devices, gains from {gain_db.min():.0f} to {gain_db.max():.0f} dB")
