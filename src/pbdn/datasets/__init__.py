"""Datasets of the paper, generators and some more real data; nothing is shipped with the package."""

from pbdn.datasets.fetch import DataUnavailableError, cache_folder, data_available
from pbdn.datasets.loaders import Dataset, load_a9a, load_extra, load_ida, load_ijcnn1, load_mnist, load_mnist_pair
from pbdn.datasets.synthetic import (
    make_circles,
    make_ringnorm,
    make_two_spirals,
    make_twonorm,
    make_waveform,
    make_xor,
)

__all__ = [
    "DataUnavailableError",
    "Dataset",
    "cache_folder",
    "data_available",
    "load_a9a",
    "load_extra",
    "load_ida",
    "load_ijcnn1",
    "load_mnist",
    "load_mnist_pair",
    "make_circles",
    "make_ringnorm",
    "make_two_spirals",
    "make_twonorm",
    "make_waveform",
    "make_xor",
]
