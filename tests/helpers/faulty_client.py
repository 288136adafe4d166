"""The example's JAX client, except that device 1 answers its second order with NaN: the end-to-end test installs it."""

from pathlib import Path

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from paota.deploy import LocalResult, LocalTask, answer_hello, answer_order, prepare_jax, train_with_jax

APP_FOLDER = Path(__file__).parent.parent

app = ClientApp()


@app.query()
def hello(message: Message, context: Context) -> Message:
    return answer_hello(message, context, prepare_jax(context, APP_FOLDER))


@app.train()
def train(message: Message, context: Context) -> Message:
    def spoilt(task: LocalTask) -> LocalResult:
        trained = train_with_jax(context, APP_FOLDER)(task)
        if (task.device, task.training) == (1, 1):
            spoilt_model = {name: np.full_like(array, np.nan) for name, array in trained.model.items()}
            return LocalResult(model=spoilt_model, num_examples=trained.num_examples, loss=trained.loss)
        return trained

    return answer_order(message, context, spoilt)
