"""`paota deploy`: the experiment as a real Flower deployment, on this machine or for devices elsewhere."""

from __future__ import annotations

import argparse
import math
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..base.system import only_one
from ..experiment.experiment import Experiment
from ..results.folder import refuse_used_folder
from ..terminal.arguments import add_experiment, add_trust, default_folder, read_experiment

ENDING_S = 8.0  # longer than `flower.guard` needs
GATEWAY = "PAOTA_GATEWAY"  # environment variable: the socket file to what stays outside a private namespace


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "deploy",
        help="run an experiment in real time on real processes or devices, with Flower",
        description="Start a Flower SuperLink and one SuperNode a device on this machine (TLS, node keys, a loopback that "
        "nobody else reaches), run the experiment on them in real time, and stop them all. With --listen the devices are "
        "elsewhere: each runs 'paota device'. Needs Flower: pip install '.[flower]' in your clone of paota.",
    )
    add_experiment(parser)
    parser.add_argument("--out", metavar="DIR", help="the run folder (default runs/NAME-deployed-DATE-TIME)")
    parser.add_argument("--resume", metavar="DIR", help="go on from the checkpoint in this folder")
    add_trust(parser)
    parser.add_argument(
        "--time-scale", type=float, default=1.0, metavar="X", help="real seconds a second of the experiment"
    )
    parser.add_argument(
        "--real-latency", action="store_true", help="devices are as slow as they are, not as the model says"
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="devices are other machines, and reach this one here (e.g. 0.0.0.0:8000)"
    )
    parser.add_argument("--keys", metavar="DIR", help="with --listen: the folder that 'paota keys' has made")
    parser.add_argument("--insecure", action="store_true", help="no TLS and no node keys; on this machine only")
    parser.add_argument("--write-app", metavar="DIR", help="only write the Flower app, for a SuperLink of your own")
    add_shared_loopback(parser)


def run(args: argparse.Namespace) -> int:
    from ..deploy import require_flower

    require_flower()
    from ..deploy.settings import Deployment

    if not (math.isfinite(args.time_scale) and args.time_scale > 0):
        raise UserError(f"--time-scale must be above 0, not {args.time_scale:g}")
    experiment = _resumed(args) if args.resume else read_experiment(args)
    Deployment().chosen(experiment)
    config: dict[str, Any] = {"time-scale": args.time_scale, "emulate-latency": not (args.real_latency or args.listen)}
    if args.write_app:
        from ..deploy.launch import write_app

        refuse_used_folder(args.write_app)
        write_app(Path(args.write_app), experiment, {**config, **({"out": args.out} if args.out else {})})
        print(f"{args.write_app}: run it with 'flwr run {args.write_app} CONNECTION --stream'")
        return 0
    keys = _check_listen(args, experiment)
    out = Path(args.resume or args.out or default_folder(f"{experiment.name}-deployed")).resolve()
    if not args.resume:
        refuse_used_folder(out)
    outside = (lambda: _start_gateway(args.listen, keys)) if keys else None
    gateway = hide(args, outside) or (outside and outside())

    from ..deploy.launch import run_here, write_app

    work = Path(tempfile.mkdtemp(prefix="paota-deploy-"))
    config |= {"out": str(out), "resume": bool(args.resume)}
    write_app(work / "app", experiment, config)
    run_here(
        work / "app", work / "federation", devices=experiment.data.devices, run_config={}, secure=not args.insecure,
        keys=keys, gateway_socket=gateway,
    )  # fmt: skip
    shutil.rmtree(work)  # kept where something failed: the message names it
    print(f"\nreport: {out / 'report.html'}")
    return 0


def _resumed(args: argparse.Namespace) -> Experiment:
    """The experiment in the folder to go on with."""
    if args.experiment or args.preset or args.changes or args.out:
        raise UserError(
            "--resume goes on with a deployment as it was: give it without a file, --preset, --set or --out"
        )
    folder = Path(args.resume)
    if (folder / "run.json").exists():
        raise UserError(f"'{folder}' is a finished run: there is nothing to go on with")
    if not (folder / "experiment.toml").exists() or not any(folder.glob("checkpoint-*/state.npz")):
        raise UserError(f"'{folder}' holds no checkpoint of a deployment")
    _wait_until_free(folder)
    return Experiment.from_file(folder / "experiment.toml", trust_plugins=args.trust_plugins)


def _wait_until_free(folder: Path) -> None:
    """Refuse a folder that another deployment works in; the processes of one that was killed end within seconds."""
    latest = time.monotonic() + ENDING_S
    while True:
        try:
            with only_one(folder):
                return
        except UserError:
            if time.monotonic() > latest:
                raise
        time.sleep(0.2)


def _check_listen(args: argparse.Namespace, experiment: Experiment) -> Path | None:
    """The folder of keys for devices elsewhere, None for a deployment on this machine."""
    if not args.listen:
        from ..deploy.launch import check_size

        if args.keys:
            raise UserError("--keys goes with --listen: a deployment on this machine makes its own")
        check_size(experiment.data.devices)
        return None
    if args.insecure:
        raise UserError("--insecure is for a deployment on this machine: with --listen there is always TLS")
    host, colon, port = args.listen.rpartition(":")
    if not (colon and host and port.isdigit() and 0 < int(port) < 65536):
        raise UserError(f"--listen must be HOST:PORT, e.g. 0.0.0.0:8000, not '{args.listen}'")
    keys = Path(args.keys or "keys").resolve()
    wanted = ["ca.crt", "server.crt", "server.key", *(f"node-{k}.pub" for k in range(experiment.data.devices))]
    missing = [name for name in wanted if not (keys / name).exists()]
    if missing:
        raise UserError(
            f"'{keys}' has no {missing[0]}: make it with 'paota keys {args.keys or 'keys'} --devices "
            f"{experiment.data.devices} --names NAMES-OF-THIS-MACHINE'"
        )
    return keys


def add_shared_loopback(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shared-loopback",
        action="store_true",
        help="start also where other users of this machine cannot be kept out (docs/trust.md)",
    )


def hide(args: argparse.Namespace, outside: Callable[[], str] | None) -> str | None:
    """Go on in a private network namespace, unless the user wants none; the socket file to what stays `outside`."""
    from ..deploy import namespace as private

    if os.environ.pop(private.LOOPBACK, None):
        return os.environ.pop(GATEWAY, None)
    if args.shared_loopback:
        print("paota: every user of this machine can act as you in this deployment (docs/trust.md)", file=sys.stderr)
        return None
    if not args.as_program:  # a process of the caller's, which must not be replaced
        raise UserError("run it as a program, 'python -m paota ...', or with --shared-loopback")
    environment = {**os.environ, **({GATEWAY: outside()} if outside else {})}
    command = [sys.executable, "-IS", private.__file__, sys.executable, "-m", "paota", *sys.argv[1:]]
    sys.stdout.flush()
    os.execve(command[0], command, environment)


def _start_gateway(listen: str, keys: Path) -> str:
    """The gateway process; the socket file over which it reaches the SuperLink."""
    from ..deploy.relay import start_outside

    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host.strip("[]"), int(port)), family=family, backlog=512) as listener:
            return start_outside("paota.deploy.gateway", [str(keys)], listener)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # Python adds the address
        raise UserError(f"cannot listen on {listen}: {reason}") from None
