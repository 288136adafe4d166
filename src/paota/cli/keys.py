"""`paota keys`: certificates and node keys for a deployment on several machines."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..base.errors import UserError


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "keys",
        help="make the certificates and node keys of a deployment on several machines",
        description="Make a TLS certificate for the server and a key for each device. Copy ca.crt and node-K to device K, "
        "nothing else. Needs Flower: pip install '.[flower]' in your clone of paota.",
    )
    parser.add_argument("folder", metavar="DIR", help="where they go; must not exist yet")
    parser.add_argument("--devices", type=int, required=True, metavar="N", help="how many devices there are")
    parser.add_argument(
        "--names", required=True, metavar="NAME,...", help="every name and address by which devices reach the server"
    )


def run(args: argparse.Namespace) -> int:
    from ..deploy import require_flower

    require_flower()
    from ..deploy.certificates import LOOPBACK, make_certificates, make_node_key

    folder = Path(args.folder)
    names = [name.strip() for name in args.names.split(",") if name.strip()]
    if args.devices < 1 or not names:
        raise UserError("--devices must be at least 1, and --names must name the server")
    if folder.exists():
        raise UserError(f"'{folder}' exists already: new keys would lock out whoever has the old ones")
    make_certificates(folder, [*names, *(name for name in LOOPBACK if name not in names)])
    for device in range(args.devices):
        make_node_key(folder, f"node-{device}")
    print(f"{folder}: give device K the files ca.crt and node-K; server.key stays here")
    return 0
