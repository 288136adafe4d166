"""Run this app on one machine: a SuperLink and one SuperNode a device, with TLS and node authentication, on loopback.

    python run_local.py [--insecure] [--out DIR] [--run-config KEY=VALUE ...]

Everything it starts is stopped at the end, also after Ctrl-C. Keys and logs are in a temporary folder, which it names.
"""

import argparse
import sys
import tempfile
import tomllib
from pathlib import Path

import paota
from paota.deploy import run_here

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--insecure", action="store_true", help="no TLS and no node keys")
    parser.add_argument("--out", default="runs/deployment", help="the run folder")
    parser.add_argument(
        "--run-config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="in TOML: change a setting of [tool.flwr.app.config]",
    )
    args = parser.parse_args()

    changes = tomllib.loads("\n".join(args.run_config))
    devices = paota.Experiment.from_file(HERE / "experiment.toml").data.devices
    work = Path(tempfile.mkdtemp(prefix="paota-federation-"))
    print(f"keys and logs: {work}")
    try:
        config = {"out": str(Path(args.out).resolve()), **changes}
        run_here(HERE, work, devices=devices, run_config=config, secure=not args.insecure)
    except paota.UserError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
