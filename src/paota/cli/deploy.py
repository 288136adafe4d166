"""`paota deploy`: the experiment as a real Flower deployment on this machine, one process a device."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ..runs.folder import refuse_used_folder
from .arguments import add_experiment, read_experiment
from .run import default_folder


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "deploy",
        help="run an experiment in real time on real processes, with Flower",
        description="Start a Flower SuperLink and one SuperNode a device on this machine (loopback, TLS, node keys), "
        "run the experiment on them in real time, and stop them all. Needs the extra: pip install 'paota[flower]'.",
    )
    add_experiment(parser)
    parser.add_argument("--out", metavar="DIR", help="the run folder (default runs/NAME-deployed-DATE-TIME)")
    parser.add_argument("--resume", metavar="DIR", help="go on from the checkpoint in this folder")
    parser.add_argument(
        "--time-scale", type=float, default=1.0, metavar="X", help="real seconds a second of the experiment"
    )
    parser.add_argument(
        "--real-latency", action="store_true", help="devices are as slow as they are, not as the model says"
    )
    parser.add_argument("--insecure", action="store_true", help="no TLS and no node keys")
    parser.add_argument("--write-app", metavar="DIR", help="only write the Flower app, for machines of your own")


def run(args: argparse.Namespace) -> int:
    from ..flower import require_flower

    require_flower()
    from ..flower.deployment import Deployment
    from ..flower.launch import check_size, run_here, write_app

    experiment = read_experiment(args)
    Deployment().contestants(experiment)
    config: dict[str, Any] = {"time-scale": args.time_scale, "emulate-latency": not args.real_latency}
    if args.write_app:
        refuse_used_folder(args.write_app)
        write_app(Path(args.write_app), experiment, {**config, **({"out": args.out} if args.out else {})})
        print(f"{args.write_app}: run it with 'flwr run {args.write_app} CONNECTION --stream'")
        return 0
    check_size(experiment.data.devices)
    out = Path(args.resume or args.out or default_folder(f"{experiment.name}-deployed")).resolve()
    if not args.resume:
        refuse_used_folder(out)
    work = Path(tempfile.mkdtemp(prefix="paota-deploy-"))
    config |= {"out": str(out), "resume": bool(args.resume)}
    write_app(work / "app", experiment, config)
    run_here(
        work / "app", work / "federation", devices=experiment.data.devices, run_config={}, secure=not args.insecure
    )
    shutil.rmtree(work)  # kept where something failed: the message names it
    print(f"\nreport: {out / 'report.html'}")
    return 0
