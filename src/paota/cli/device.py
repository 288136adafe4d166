"""`paota device`: this machine as one device of a deployment."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from .deploy import add_shared_loopback, hide


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "device",
        help="take part in a deployment as one device",
        description="Connect to a server that runs 'paota deploy --listen', train when asked, and go on until stopped. The "
        "server's experiment is run as it is, so a device trusts its server. Needs Flower: pip install '.[flower]' in your "
        "clone of paota.",
    )
    parser.add_argument("server", metavar="HOST:PORT", help="where the server listens")
    parser.add_argument("--keys", default="keys", metavar="DIR", help="a folder with ca.crt and node-K (default keys)")
    parser.add_argument("--device", type=int, required=True, metavar="K", help="which device this is, 0 to N-1")
    parser.add_argument("--devices", type=int, required=True, metavar="N", help="how many devices there are")
    parser.add_argument(
        "--data", metavar="FILE", help="data of its own (.npz), in place of its part of the experiment's"
    )
    add_shared_loopback(parser)


def run(args: argparse.Namespace) -> int:
    from ..deploy import require_flower

    require_flower()
    if not 0 <= args.device < args.devices:
        raise UserError(f"--device must be 0 to {args.devices - 1}, not {args.device}")
    keys = Path(args.keys).resolve()
    for name in ("ca.crt", f"node-{args.device}"):
        if not (keys / name).is_file():
            raise UserError(f"'{keys}' has no {name}: the server's 'paota keys' makes it")
    if args.data and not Path(args.data).is_file():
        raise UserError(f"no such file: '{args.data}'")
    host, colon, port = args.server.rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
        raise UserError(f"the server must be HOST:PORT, e.g. server.example.org:8000, not '{args.server}'")
    from ..deploy.relay import start_outside

    through = hide(args, lambda: start_outside("paota.deploy.relay", [host.strip("[]"), port]))
    from ..deploy.federation import Device

    node = Device(
        Path(tempfile.mkdtemp(prefix="paota-device-")), args.server, keys=keys, device=args.device, devices=args.devices,
        data=str(Path(args.data).resolve()) if args.data else None, through=through, temporary=True,
    )  # fmt: skip
    with node:
        return node.wait()
