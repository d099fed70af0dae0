"""The paper's tables (Zhou, NeurIPS 2018) as plain numbers."""

from typing import Any

# fmt: off
_VALUES: dict[str, Any] = {
    "datasets": ["banana", "breast_cancer", "titanic", "waveform", "german", "image", "ijcnn1", "a9a"],
    "methods": ["lr", "svm", "rvm", "amm", "cpm", "dnn_8_4", "dnn_32_16", "dnn_128_64", "pbdn1", "pbdn2", "pbdn4", "aic_gibbs", "aic_eps_gibbs", "aic_sgd", "aic_eps_sgd"],
    "error": {
      "banana": {"lr": [47.76, 4.38], "svm": [10.85, 0.57], "rvm": [11.08, 0.69], "amm": [18.76, 4.09], "cpm": [21.59, 3.0], "dnn_8_4": [14.07, 5.87], "dnn_32_16": [10.88, 0.36], "dnn_128_64": [10.91, 0.45], "pbdn1": [22.54, 5.28], "pbdn2": [10.94, 0.46], "pbdn4": [10.85, 0.43], "aic_gibbs": [10.97, 0.46], "aic_eps_gibbs": [10.97, 0.46], "aic_sgd": [11.49, 0.65], "aic_eps_sgd": [11.79, 0.89]},
      "breast_cancer": {"lr": [28.05, 3.68], "svm": [28.44, 4.52], "rvm": [31.56, 4.66], "amm": [31.82, 4.47], "cpm": [30.13, 5.26], "dnn_8_4": [32.73, 4.77], "dnn_32_16": [33.51, 6.47], "dnn_128_64": [32.21, 6.64], "pbdn1": [29.22, 3.53], "pbdn2": [30.26, 4.86], "pbdn4": [30.26, 5.55], "aic_gibbs": [29.22, 3.53], "aic_eps_gibbs": [29.22, 3.53], "aic_sgd": [32.08, 6.18], "aic_eps_sgd": [29.87, 5.27]},
      "titanic": {"lr": [22.67, 0.98], "svm": [22.33, 0.63], "rvm": [23.2, 1.08], "amm": [28.85, 8.56], "cpm": [23.38, 3.23], "dnn_8_4": [22.32, 1.38], "dnn_32_16": [22.35, 1.36], "dnn_128_64": [22.28, 1.37], "pbdn1": [22.88, 0.59], "pbdn2": [22.25, 1.27], "pbdn4": [22.16, 1.13], "aic_gibbs": [22.88, 0.59], "aic_eps_gibbs": [22.88, 0.59], "aic_sgd": [23.0, 0.37], "aic_eps_sgd": [23.0, 0.37]},
      "waveform": {"lr": [13.33, 0.59], "svm": [10.73, 0.86], "rvm": [11.16, 0.72], "amm": [11.81, 1.13], "cpm": [13.52, 1.97], "dnn_8_4": [12.43, 0.91], "dnn_32_16": [11.66, 0.89], "dnn_128_64": [11.2, 0.63], "pbdn1": [11.67, 0.9], "pbdn2": [11.4, 0.86], "pbdn4": [11.69, 1.34], "aic_gibbs": [11.42, 0.94], "aic_eps_gibbs": [11.45, 0.93], "aic_sgd": [12.38, 0.59], "aic_eps_sgd": [12.04, 0.72]},
      "german": {"lr": [23.63, 1.7], "svm": [23.3, 2.51], "rvm": [23.67, 2.28], "amm": [25.13, 3.73], "cpm": [23.57, 2.15], "dnn_8_4": [27.83, 3.6], "dnn_32_16": [28.47, 3.0], "dnn_128_64": [25.73, 2.62], "pbdn1": [23.57, 2.43], "pbdn2": [23.8, 2.22], "pbdn4": [23.77, 2.27], "aic_gibbs": [23.77, 2.52], "aic_eps_gibbs": [23.9, 2.56], "aic_sgd": [26.87, 2.6], "aic_eps_sgd": [23.93, 2.01]},
      "image": {"lr": [17.53, 1.05], "svm": [2.84, 0.52], "rvm": [3.82, 0.59], "amm": [3.82, 0.87], "cpm": [3.59, 0.71], "dnn_8_4": [4.83, 1.51], "dnn_32_16": [2.54, 0.45], "dnn_128_64": [2.44, 0.56], "pbdn1": [3.32, 0.59], "pbdn2": [2.43, 0.51], "pbdn4": [2.3, 0.4], "aic_gibbs": [2.36, 0.54], "aic_eps_gibbs": [2.3, 0.52], "aic_sgd": [2.18, 0.41], "aic_eps_sgd": [2.27, 0.36]},
      "ijcnn1": {"lr": [8.41, 0.6], "svm": [4.01, 0.53], "rvm": [5.37, 1.4], "amm": [4.82, 1.99], "cpm": [4.83, 1.14], "dnn_8_4": [6.35, 1.33], "dnn_32_16": [5.17, 0.83], "dnn_128_64": [4.17, 0.97], "pbdn1": [5.46, 1.32], "pbdn2": [4.33, 0.84], "pbdn4": [4.09, 0.76], "aic_gibbs": [4.33, 0.84], "aic_eps_gibbs": [4.06, 0.84], "aic_sgd": [4.18, 0.73], "aic_eps_sgd": [4.15, 0.68]},
      "a9a": {"lr": [15.34, 0.11], "svm": [15.87, 0.33], "rvm": [15.39, 0.12], "amm": [15.97, 0.23], "cpm": [15.56, 0.23], "dnn_8_4": [15.82, 0.23], "dnn_32_16": [16.16, 0.22], "dnn_128_64": [16.97, 0.55], "pbdn1": [15.74, 0.12], "pbdn2": [15.64, 0.1], "pbdn4": [15.7, 0.09], "aic_gibbs": [15.74, 0.12], "aic_eps_gibbs": [15.74, 0.12], "aic_sgd": [19.9, 0.3], "aic_eps_sgd": [17.13, 0.19]}
    },
    "normalised_error": {"lr": 2.237, "svm": 1.0, "rvm": 1.11, "amm": 1.234, "cpm": 1.227, "dnn_8_4": 1.26, "dnn_32_16": 1.087, "dnn_128_64": 1.031, "pbdn1": 1.219, "pbdn2": 1.009, "pbdn4": 0.998, "aic_gibbs": 1.006, "aic_eps_gibbs": 0.996, "aic_sgd": 1.073, "aic_eps_sgd": 1.029},
    "complexity": {
      "banana": {"lr": [1.0, 0.0], "svm": [129.2, 32.8], "rvm": [22.3, 26.0], "amm": [9.5, 2.8], "cpm": [14.2, 7.9], "dnn_8_4": [18.7, 0.0], "dnn_32_16": [202.7, 0.0], "dnn_128_64": [2858.7, 0.0], "pbdn1": [7.6, 2.6], "pbdn2": [9.4, 1.1], "pbdn4": [17.2, 3.6], "aic_gibbs": [10.0, 1.1], "aic_eps_gibbs": [10.0, 1.1], "aic_sgd": [57.5, 19.1], "aic_eps_sgd": [45.9, 15.2]},
      "breast_cancer": {"lr": [1.0, 0.0], "svm": [115.1, 11.2], "rvm": [24.8, 28.3], "amm": [13.4, 0.8], "cpm": [5.2, 3.7], "dnn_8_4": [11.2, 0.0], "dnn_32_16": [83.2, 0.0], "dnn_128_64": [947.2, 0.0], "pbdn1": [7.1, 2.8], "pbdn2": [9.1, 1.5], "pbdn4": [24.4, 6.0], "aic_gibbs": [7.1, 2.8], "aic_eps_gibbs": [7.1, 2.8], "aic_sgd": [18.2, 10.3], "aic_eps_sgd": [6.5, 1.0]},
      "titanic": {"lr": [1.0, 0.0], "svm": [83.4, 13.3], "rvm": [5.1, 3.0], "amm": [14.9, 3.1], "cpm": [4.8, 3.3], "dnn_8_4": [16.0, 0.0], "dnn_32_16": [160.0, 0.0], "dnn_128_64": [2176.0, 0.0], "pbdn1": [4.2, 0.4], "pbdn2": [7.0, 2.5], "pbdn4": [12.8, 1.3], "aic_gibbs": [4.2, 0.4], "aic_eps_gibbs": [4.2, 0.4], "aic_sgd": [4.2, 0.4], "aic_eps_sgd": [4.2, 0.4]},
      "waveform": {"lr": [1.0, 0.0], "svm": [147.0, 38.5], "rvm": [21.1, 11.0], "amm": [9.5, 1.2], "cpm": [4.4, 2.8], "dnn_8_4": [9.5, 0.0], "dnn_32_16": [55.3, 0.0], "dnn_128_64": [500.4, 0.0], "pbdn1": [5.5, 1.7], "pbdn2": [10.6, 2.1], "pbdn4": [35.1, 6.3], "aic_gibbs": [12.5, 7.6], "aic_eps_gibbs": [12.3, 8.2], "aic_sgd": [10.4, 1.8], "aic_eps_sgd": [7.2, 2.6]},
      "german": {"lr": [1.0, 0.0], "svm": [423.6, 55.0], "rvm": [11.0, 3.2], "amm": [18.8, 1.8], "cpm": [2.8, 1.7], "dnn_8_4": [9.5, 0.0], "dnn_32_16": [56.4, 0.0], "dnn_128_64": [518.1, 0.0], "pbdn1": [8.2, 2.3], "pbdn2": [14.1, 4.5], "pbdn4": [40.1, 7.9], "aic_gibbs": [10.2, 6.0], "aic_eps_gibbs": [12.1, 7.6], "aic_sgd": [46.4, 10.5], "aic_eps_sgd": [15.6, 1.3]},
      "image": {"lr": [1.0, 0.0], "svm": [211.6, 47.5], "rvm": [35.8, 9.2], "amm": [10.5, 1.1], "cpm": [14.6, 7.5], "dnn_8_4": [9.7, 0.0], "dnn_32_16": [58.9, 0.0], "dnn_128_64": [559.2, 0.0], "pbdn1": [12.9, 1.2], "pbdn2": [16.4, 1.5], "pbdn4": [50.4, 3.1], "aic_gibbs": [21.7, 5.9], "aic_eps_gibbs": [24.1, 6.6], "aic_sgd": [22.4, 2.9], "aic_eps_sgd": [19.4, 2.2]},
      "ijcnn1": {"lr": [1.0, 0.0], "svm": [835.2, 139.5], "rvm": [83.4, 45.2], "amm": [8.2, 0.8], "cpm": [38.0, 8.4], "dnn_8_4": [9.4, 0.0], "dnn_32_16": [54.3, 0.0], "dnn_128_64": [484.2, 0.0], "pbdn1": [28.4, 0.9], "pbdn2": [33.9, 1.4], "pbdn4": [89.5, 2.6], "aic_gibbs": [33.9, 1.4], "aic_eps_gibbs": [67.3, 19.5], "aic_sgd": [45.0, 13.2], "aic_eps_sgd": [41.6, 7.3]},
      "a9a": {"lr": [1.0, 0.0], "svm": [1884.2, 79.7], "rvm": [26.2, 4.8], "amm": [28.0, 3.9], "cpm": [2.8, 1.8], "dnn_8_4": [8.3, 0.0], "dnn_32_16": [36.1, 0.0], "dnn_128_64": [194.1, 0.0], "pbdn1": [24.4, 3.9], "pbdn2": [39.1, 6.1], "pbdn4": [198.7, 23.9], "aic_gibbs": [24.4, 3.9], "aic_eps_gibbs": [24.4, 3.9], "aic_sgd": [48.1, 1.9], "aic_eps_sgd": [26.0, 1.4]}
    },
    "normalised_complexity": {"lr": 0.006, "svm": 1.0, "rvm": 0.113, "amm": 0.069, "cpm": 0.046, "dnn_8_4": 0.073, "dnn_32_16": 0.635, "dnn_128_64": 8.05, "pbdn1": 0.042, "pbdn2": 0.06, "pbdn4": 0.16, "aic_gibbs": 0.057, "aic_eps_gibbs": 0.064, "aic_sgd": 0.128, "aic_eps_sgd": 0.088},
    "depth": {
      "aic_gibbs": {"banana": [2.3, 0.48], "breast_cancer": [1.0, 0.0], "titanic": [1.0, 0.0], "waveform": [1.9, 0.74], "german": [1.3, 0.67], "image": [2.4, 0.52], "ijcnn1": [2.0, 0.0], "a9a": [1.0, 0.0]},
      "aic_eps_gibbs": {"banana": [2.3, 0.48], "breast_cancer": [1.0, 0.0], "titanic": [1.0, 0.0], "waveform": [2.0, 0.67], "german": [1.6, 0.84], "image": [2.6, 0.52], "ijcnn1": [3.4, 0.55], "a9a": [1.0, 0.0]},
      "aic_sgd": {"banana": [3.2, 0.78], "breast_cancer": [1.9, 0.99], "titanic": [1.0, 0.0], "waveform": [2.4, 0.52], "german": [2.8, 0.63], "image": [2.9, 0.74], "ijcnn1": [3.2, 0.45], "a9a": [3.2, 0.45]},
      "aic_eps_sgd": {"banana": [2.8, 0.63], "breast_cancer": [1.0, 0.0], "titanic": [1.0, 0.0], "waveform": [1.5, 0.53], "german": [1.0, 0.0], "image": [2.0, 0.0], "ijcnn1": [3.0, 0.0], "a9a": [1.0, 0.0]}
    },
    "mnist_error": {
      "pbdn": {"3v5": [2.53, 0.22], "3v8": [2.66, 0.27], "4v7": [1.37, 0.18], "4v9": [2.95, 0.47]},
      "dnn_128_64": {"3v5": [2.78, 0.36], "3v8": [2.93, 0.4], "4v7": [1.21, 0.12], "4v9": [2.98, 0.17]}
    },
    "data_sizes": {"banana": [400, 4900, 2], "breast_cancer": [200, 77, 9], "titanic": [150, 2051, 3], "waveform": [400, 4600, 21], "german": [700, 300, 20], "image": [1300, 1010, 18], "ijcnn1": [14169, 127522, 22], "a9a": [4884, 43958, 123]},
    "stacked_cpm_error": {
      "waveform": {"2": 13.1, "3": 17.7, "4": 22.3},
      "image": {"2": 4.6, "3": 8.0, "4": 21.6}
    },
    "pbdn_architecture_dnn": {"aic_gibbs": 1.047, "aic_eps_gibbs": 1.011, "aic_sgd": 1.076, "aic_eps_sgd": 1.144},
    "two_spirals_widths": [8, 14, 15, 11, 19, 22, 23, 18, 19, 29],
    "two_spirals_depth": 4
}
# fmt: on

Cell = tuple[float, float]
"""Mean and standard deviation over the splits."""


def _cells(table: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, Cell]]:
    """Two-level tables of cells."""
    return {row: {name: (cell[0], cell[1]) for name, cell in cells.items()} for row, cells in table.items()}


DATASETS: tuple[str, ...] = tuple(_VALUES["datasets"])
METHODS: tuple[str, ...] = tuple(_VALUES["methods"])

ERROR = _cells(_VALUES["error"])
"""Table 2: test error in percent, by data set and method."""
NORMALISED_ERROR: dict[str, float] = _VALUES["normalised_error"]
"""Table 2, last rows: mean over the data sets of error divided by the error of the SVM."""
COMPLEXITY = _cells(_VALUES["complexity"])
"""Table 5: equivalent number of support vectors or hyperplanes; the Gibbs columns use the published code's divisor."""
NORMALISED_COMPLEXITY: dict[str, float] = _VALUES["normalised_complexity"]
"""Table 5, last rows."""
DEPTH = _cells(_VALUES["depth"])
"""Table 3: inferred depth, by method and data set."""
MNIST_ERROR = _cells(_VALUES["mnist_error"])
"""Table 1: test error in percent over five trials, by method and pair of digits."""
DATA_SIZES: dict[str, tuple[int, int, int]] = {name: tuple(size) for name, size in _VALUES["data_sizes"].items()}
"""Table 4: training rows, test rows, features."""
STACKED_CPM_ERROR: dict[str, dict[int, float]] = {
    name: {int(depth): error for depth, error in errors.items()}
    for name, errors in _VALUES["stacked_cpm_error"].items()
}
"""Section 4, text: test error in percent of CPMs stacked 2, 3 and 4 deep."""
PBDN_ARCHITECTURE_DNN: dict[str, float] = _VALUES["pbdn_architecture_dnn"]
"""Section 4, text: SVM-normalised mean error of a DNN with the architecture a PBDN inferred."""
TWO_SPIRALS_WIDTHS: tuple[int, ...] = tuple(_VALUES["two_spirals_widths"])
"""Section 4, text: hidden units of layers 1 to 10 (both sides together)."""
TWO_SPIRALS_DEPTH: int = _VALUES["two_spirals_depth"]
"""Depth chosen by both criteria."""
