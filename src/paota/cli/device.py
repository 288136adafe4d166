"""`paota device`: this machine as one device of a deployment."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from ..errors import UserError


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "device",
        help="take part in a deployment as one device",
        description="Connect to a server that runs 'paota deploy --listen', train when asked, and go on until stopped. The "
        "server's experiment is run as it is, so a device trusts its server. Needs the extra: pip install 'paota[flower]'.",
    )
    parser.add_argument("server", metavar="HOST:PORT", help="where the server listens")
    parser.add_argument("--keys", default="keys", metavar="DIR", help="a folder with ca.crt and node-K (default keys)")
    parser.add_argument("--device", type=int, required=True, metavar="K", help="which device this is, 0 to N-1")
    parser.add_argument("--devices", type=int, required=True, metavar="N", help="how many devices there are")
    parser.add_argument(
        "--data", metavar="FILE", help="data of its own (.npz), in place of its part of the experiment's"
    )


def run(args: argparse.Namespace) -> int:
    from ..flower import require_flower

    require_flower()
    if not 0 <= args.device < args.devices:
        raise UserError(f"--device must be 0 to {args.devices - 1}, not {args.device}")
    keys = Path(args.keys).resolve()
    for name in ("ca.crt", f"node-{args.device}"):
        if not (keys / name).is_file():
            raise UserError(f"'{keys}' has no {name}: the server's 'paota keys' makes it")
    if args.data and not Path(args.data).is_file():
        raise UserError(f"no such file: '{args.data}'")
    from ..flower.local import Device

    with tempfile.TemporaryDirectory(prefix="paota-device-") as work:
        node = Device(
            Path(work), args.server, keys=keys, device=args.device, devices=args.devices,
            data=str(Path(args.data).resolve()) if args.data else None,
        )  # fmt: skip
        with node:
            return node.wait()
