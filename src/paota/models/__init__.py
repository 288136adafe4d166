"""What is learned: any pair of pure functions (init, apply)."""

from .base import FunctionModel, Model, cross_entropy
from .cnn import Cnn
from .mlp import Mlp
from .softmax import Softmax

__all__ = ["Cnn", "FunctionModel", "Mlp", "Model", "Softmax", "cross_entropy"]
