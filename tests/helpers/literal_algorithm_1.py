"""A slow, literal NumPy reading of Algorithm 1, sharing nothing with the package but the random draws."""

from __future__ import annotations

from itertools import pairwise

import jax
import numpy as np
from scipy.optimize import brentq


def draws(seed, purpose, *counters):
    key = jax.random.fold_in(jax.random.key(seed), purpose)
    for counter in counters:
        key = jax.random.fold_in(key, counter)
    return key


def batches(seed, device, number, steps, batch, size):
    return np.asarray(jax.random.randint(draws(seed, 5, device, number), (steps, batch), 0, size))


def channel(seed, r, device):
    real, imaginary = np.asarray(jax.random.normal(draws(seed, 6, r, device), (2,)), float) * np.sqrt(0.5)
    return complex(real, imaginary)


def noise(seed, r, d, sigma2):
    return np.asarray(jax.random.normal(draws(seed, 7, r), (d,)), float) * np.sqrt(sigma2 / 2)


def unpack(w, widths):
    layers, at = [], 0
    for fan_in, fan_out in pairwise(widths):
        bias = w[at : at + fan_out]
        at += fan_out
        layers.append([bias, w[at : at + fan_in * fan_out].reshape(fan_out, fan_in)])
        at += fan_in * fan_out
    return layers


def gradient(w, x, y, widths):
    """Back-propagation through ReLU layers and softmax cross-entropy, by hand."""
    layers = unpack(w, widths)
    activations = [x]
    for i, (bias, weight) in enumerate(layers):
        z = activations[-1] @ weight.T + bias
        activations.append(np.maximum(z, 0) if i < len(layers) - 1 else z)
    logits = activations.pop()
    softmax = np.exp(logits - logits.max(1, keepdims=True))
    softmax /= softmax.sum(1, keepdims=True)
    delta = (softmax - np.eye(widths[-1])[y]) / len(y)
    gradients = []
    for (_, weight), a in zip(reversed(layers), reversed(activations), strict=True):
        gradients.append(np.concatenate([delta.sum(0), (delta.T @ a).ravel()]))
        delta = (delta @ weight) * (a > 0)
    return np.concatenate(gradients[::-1])


def solve_power(lo, hi, c):
    """The root of psi by bracketing; nothing clever."""

    def psi(tau):
        return np.sum(hi * np.maximum(tau - hi, 0) - lo * np.maximum(lo - tau, 0)) - c

    top = hi.max() + c / hi.min() + 1.0
    tau = brentq(psi, lo.min(), top, xtol=1e-14, rtol=1e-15) if psi(hi.max()) > 0 else hi.max()
    return np.clip(tau, lo, hi)


def paota(
    seed, w0, data, shards, latency, widths, *, rounds, period_s, M, B, eta, omega, p_max, sigma2, L, eps2, payload
):
    K = len(shards)
    w = [w0]
    version, number = [0] * K, [0] * K
    finish = [latency(k, 0) for k in range(K)]
    for r in range(rounds):
        deadline = (r + 1) * period_s
        ready = [k for k in range(K) if finish[k] <= deadline]
        if ready:
            local, rho, theta, h = [], [], [], []
            for k in ready:
                wk = w[version[k]].copy()
                for index in batches(seed, k, number[k], M, B, len(shards[k])):
                    samples = shards[k][index]
                    wk -= eta * gradient(
                        wk, data.x_train[samples].reshape(B, -1) / 255.0, data.y_train[samples], widths
                    )
                step = w[r] - w[max(r - 1, 0)]
                dw = wk - w[version[k]]
                length = np.linalg.norm(dw) * np.linalg.norm(step)
                local.append(wk if payload == "model" else dw)
                rho.append(omega / (r - version[k] + omega))
                theta.append(((dw @ step / length if length else 0.0) + 1) / 2)
                h.append(channel(seed, r, k))
            rho, theta = np.array(rho), np.array(theta)
            c = 2 * L * len(w0) * sigma2 / (L * eps2 * K)
            p = solve_power(p_max * np.minimum(rho, theta), p_max * np.maximum(rho, theta), c)
            y = noise(seed, r, len(w0), sigma2)
            for pk, hk, wk in zip(p, h, local, strict=True):
                phi = pk * np.conj(hk) / abs(hk) ** 2
                y = y + np.real(hk * phi) * wk
            w.append(y / p.sum() if payload == "model" else w[r] + y / p.sum())
        else:
            w.append(w[r])
        for k in ready:
            version[k], number[k] = r + 1, number[k] + 1
            finish[k] = deadline + latency(k, number[k])
    return np.array(w)
