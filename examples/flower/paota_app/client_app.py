"""A device that trains with JAX, exactly as the simulator does."""

from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from paota.deploy import answer_hello, answer_order, prepare_jax, train_with_jax

APP_FOLDER = Path(__file__).parent.parent

app = ClientApp()


@app.query()
def hello(message: Message, context: Context) -> Message:
    return answer_hello(message, context, prepare_jax(context, APP_FOLDER))


@app.train()
def train(message: Message, context: Context) -> Message:
    return answer_order(message, context, train_with_jax(context, APP_FOLDER))
