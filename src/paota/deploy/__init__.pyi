from .client import LocalResult as LocalResult
from .client import LocalTask as LocalTask
from .client import answer_hello as answer_hello
from .client import answer_order as answer_order
from .client import device_data as device_data
from .client import prepare_jax as prepare_jax
from .client import train_with_jax as train_with_jax
from .client import training_of as training_of
from .launch import run_here as run_here
from .server_app import serve as serve

def require_flower() -> None: ...
