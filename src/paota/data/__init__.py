"""Data: what is learned from, and what does each device hold? Plain NumPy, no JAX."""

from paota.data.dataset import MAX_CLASSES, Dataset
from paota.data.load import load_dataset
from paota.data.partition import Dirichlet, Iid, LabelShards, Paper, Partition
from paota.data.shards import Shards, describe
from paota.registry import DATASETS, PARTITIONS

__all__ = [
    "DATASETS",
    "MAX_CLASSES",
    "PARTITIONS",
    "Dataset",
    "Dirichlet",
    "Iid",
    "LabelShards",
    "Paper",
    "Partition",
    "Shards",
    "describe",
    "load_dataset",
]
