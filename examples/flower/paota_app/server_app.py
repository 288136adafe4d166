"""The server: Algorithm 1 in real time. Its settings are in experiment.toml and [tool.flwr.app.config]."""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from paota.deploy import serve

APP_FOLDER = Path(__file__).parent.parent

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    serve(grid, context, APP_FOLDER)
