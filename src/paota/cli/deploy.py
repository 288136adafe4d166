"""`paota deploy`, `paota device` and `paota keys`: an experiment on real processes or devices, with Flower."""

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

from ..base.errors import UserError
from ..base.system import only_one
from ..base.types import Subcommands, Table
from ..deploy import isolation, require_flower
from ..deploy.settings import Deployment
from ..experiment.experiment import Experiment
from ..results.folder import refuse_used_folder
from ..terminal import arguments

ENDING_S = 8.0  # longer than the reaper of `deploy.isolation` needs
INSTALL = "Needs Flower: pip install '.[flower]' in your clone of paota."
GATEWAY = "PAOTA_GATEWAY"  # environment variable: the socket file to what stays outside a private namespace


def add_parser(commands: Subcommands) -> None:
    """Add the three commands."""
    parser = commands.add_parser(
        "deploy",
        help="run an experiment in real time on real processes or devices, with Flower",
        description="Start a Flower SuperLink and one SuperNode per device on this machine (TLS, node keys, a private "
        "loopback), run the experiment on them in real time, and stop them all. With --listen the devices are other "
        f"machines: each runs 'paota device'. {INSTALL}",
    )
    parser.set_defaults(execute=run_deploy)
    arguments.add_experiment(parser)
    parser.add_argument("--out", metavar="DIR", help="the run folder (default runs/NAME-deployed-DATE-TIME)")
    parser.add_argument("--resume", metavar="DIR", help="resume from the checkpoint in this folder")
    arguments.add_trust(parser)
    arguments.add_dry_run(parser)
    parser.add_argument("--time-scale", type=float, default=1.0, metavar="X", help="real seconds per simulated second")
    parser.add_argument(
        "--real-latency",
        action="store_true",
        help="do not emulate the latency model: devices take the time that they need",
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="devices are other machines and reach this one here (e.g. 0.0.0.0:8000)"
    )
    parser.add_argument("--keys", metavar="DIR", help="with --listen: the folder that 'paota keys' has made")
    parser.add_argument("--insecure", action="store_true", help="no TLS and no node keys; on this machine only")
    parser.add_argument("--write-app", metavar="DIR", help="only write the Flower app, for a SuperLink of your own")

    device = commands.add_parser(
        "device",
        help="take part in a deployment as one device",
        description="Connect to a server that runs 'paota deploy --listen', train when asked, and continue until stopped. The "
        f"server's experiment is run as it is, so a device trusts its server. {INSTALL}",
    )
    device.set_defaults(execute=run_device)
    device.add_argument("server", metavar="HOST:PORT", help="the server's address")
    device.add_argument("--keys", default="keys", metavar="DIR", help="a folder with ca.crt and node-K (default keys)")
    device.add_argument("--device", type=int, required=True, metavar="K", help="the number of this device, 0 to N-1")
    device.add_argument("--data", metavar="FILE", help="its own data (.npz) instead of its part of the experiment's")
    for one in (parser, device):
        one.add_argument(
            "--shared-loopback", action="store_true",
            help="start even if other users of this machine cannot be kept out (docs/trust.md)",
        )  # fmt: skip

    keys = commands.add_parser(
        "keys",
        help="make the certificates and node keys of a deployment on several machines",
        description="Make a TLS certificate for the server and a key for each device. Copy ca.crt and node-K to device K, "
        f"nothing else. {INSTALL}",
    )
    keys.set_defaults(execute=run_keys)
    keys.add_argument("folder", metavar="DIR", help="the new folder")
    keys.add_argument(
        "--names", required=True, metavar="NAME,...", help="every name and address by which devices reach the server"
    )
    for one in (device, keys):
        one.add_argument("--devices", type=int, required=True, metavar="N", help="number of devices")


def run_deploy(args: argparse.Namespace) -> int:
    """Run an experiment as a deployment, or write its app."""
    require_flower()
    from ..deploy.launch import run_here, write_app  # optional: it needs Flower

    if not (math.isfinite(args.time_scale) and args.time_scale > 0):
        raise UserError(f"--time-scale must be above 0, not {args.time_scale:g}")
    arguments.refuse_dry_resume(args)
    experiment = _resumed(args) if args.resume else arguments.read_experiment(args)
    Deployment().chosen(experiment)
    config: Table = {"time-scale": args.time_scale, "emulate-latency": not (args.real_latency or args.listen)}
    if args.write_app:
        if args.dry_run:
            raise UserError("--dry-run writes nothing: give it without --write-app")
        refuse_used_folder(args.write_app)
        write_app(Path(args.write_app), experiment, {**config, **({"out": args.out} if args.out else {})})
        print(f"{args.write_app}: run it with 'flwr run {args.write_app} CONNECTION --stream'")
        return 0
    keys = _check_listen(args, experiment)
    out = Path(args.resume or args.out or arguments.default_folder(f"{experiment.name}-deployed")).resolve()
    if not args.resume:
        refuse_used_folder(out)
    if args.dry_run:
        from ..simulate.workload import print_dry_run  # start-up time

        print_dry_run({"": experiment}, 1, folder=out, time_scale=args.time_scale)
        return 0
    outside = (lambda: _start_gateway(args.listen, keys)) if keys else None
    gateway = _hide(args, outside) or (outside and outside())
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
    """Return the experiment in the folder to resume."""
    if args.experiment or args.preset or args.changes or args.out:
        raise UserError("--resume continues a deployment as it was: give it without a file, --preset, --set or --out")
    folder = Path(args.resume)
    if (folder / "run.json").exists():
        raise UserError(f"'{folder}' is a finished run: there is nothing to resume")
    if not (folder / "experiment.toml").exists() or not any(folder.glob("checkpoint-*/state.npz")):
        raise UserError(f"'{folder}' holds no checkpoint of a deployment")
    _wait_until_free(folder)
    return Experiment.from_file(folder / "experiment.toml", trust_plugins=args.trust_plugins)


def _wait_until_free(folder: Path) -> None:
    """Refuse a folder that another deployment uses. The processes of a killed deployment end within seconds."""
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
    """Return the folder of keys for devices on other machines, None for a deployment on this machine."""
    if not args.listen:
        from ..deploy.launch import check_size  # optional: it needs Flower

        if args.keys:
            raise UserError("--keys goes with --listen: a deployment on this machine makes its own")
        check_size(experiment.data.devices)
        return None
    if args.insecure:
        raise UserError("--insecure is for a deployment on this machine: with --listen there is always TLS")
    _address(args.listen, "--listen must be HOST:PORT, e.g. 0.0.0.0:8000")
    keys = Path(args.keys or "keys").resolve()
    wanted = ["ca.crt", "server.crt", "server.key", *(f"node-{k}.pub" for k in range(experiment.data.devices))]
    missing = [name for name in wanted if not (keys / name).exists()]
    if missing:
        raise UserError(
            f"'{keys}' has no {missing[0]}: make it with 'paota keys {args.keys or 'keys'} --devices "
            f"{experiment.data.devices} --names NAMES-OF-THIS-MACHINE'"
        )
    return keys


def run_device(args: argparse.Namespace) -> int:
    """Take part as one device until stopped."""
    require_flower()
    if not 0 <= args.device < args.devices:
        raise UserError(f"--device must be 0 to {args.devices - 1}, not {args.device}")
    keys = Path(args.keys).resolve()
    for name in ("ca.crt", f"node-{args.device}"):
        if not (keys / name).is_file():
            raise UserError(f"'{keys}' has no {name}: the server's 'paota keys' makes it")
    if args.data and not Path(args.data).is_file():
        raise UserError(f"no such file: '{args.data}'")
    host, port = _address(args.server, "the server must be HOST:PORT, e.g. server.example.org:8000")
    from ..deploy.gateway import start_outside  # optional: it needs Flower

    through = _hide(args, lambda: start_outside("relay", [host, str(port)]))
    from ..deploy.processes import Device  # optional: it needs Flower

    node = Device(
        Path(tempfile.mkdtemp(prefix="paota-device-")), args.server, keys=keys, device=args.device, devices=args.devices,
        data=str(Path(args.data).resolve()) if args.data else None, through=through,
    )  # fmt: skip
    with node:
        return node.wait()


def run_keys(args: argparse.Namespace) -> int:
    """Make a folder of certificates and keys."""
    require_flower()
    from ..deploy.certificates import LOOPBACK, make_certificates, make_node_key  # optional: it needs Flower

    folder = Path(args.folder)
    names = [name.strip() for name in args.names.split(",") if name.strip()]
    if args.devices < 1 or not names:
        raise UserError("--devices must be at least 1, and --names must name the server")
    if folder.exists():
        raise UserError(f"'{folder}' exists already: new keys would lock out devices with the old ones")
    make_certificates(folder, [*names, *(name for name in LOOPBACK if name not in names)])
    for device in range(args.devices):
        make_node_key(folder, f"node-{device}")
    print(f"{folder}: give device K the files ca.crt and node-K; server.key stays here")
    return 0


def _address(text: str, wanted: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
        raise UserError(f"{wanted}, not '{text}'")
    return host.strip("[]"), int(port)


def _hide(args: argparse.Namespace, outside: Callable[[], str] | None) -> str | None:
    """Continue in a private network namespace, unless --shared-loopback is given.

    `outside` starts the process that stays outside. Return the socket file that leads to it.
    """
    if os.environ.pop(isolation.LOOPBACK, None):
        return os.environ.pop(GATEWAY, None)
    if args.shared_loopback:
        print("paota: every user of this machine can act as you in this deployment (docs/trust.md)", file=sys.stderr)
        return None
    if not args.as_program:  # a process of the caller's, which must not be replaced
        raise UserError("run it as a program, 'python -m paota ...', or with --shared-loopback")
    environment = {**os.environ, **({GATEWAY: outside()} if outside else {})}
    program = [sys.executable, "-m", "paota", *sys.argv[1:]]
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-IS", isolation.__file__, "private", *program], environment)


def _start_gateway(listen: str, keys: Path) -> str:
    """Start the gateway process. Return the socket file over which it reaches the SuperLink."""
    from ..deploy.gateway import start_outside  # optional: it needs Flower

    host, port = _address(listen, "--listen must be HOST:PORT")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family, backlog=512) as listener:
            return start_outside("gateway", [str(keys)], listener)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # Python adds the address
        raise UserError(f"cannot listen on {listen}: {reason}") from None
