"""Estimators to and from ``.pbdn`` files: parameters and arrays, never code."""

import os
from dataclasses import asdict, is_dataclass, replace
from typing import Any

import numpy as np

from pbdn.config import FitConfig, GibbsConfig, GibbsSettings, MapConfig
from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.files import (
    SCHEMA_VERSION,
    atomic_write,
    check_schema,
    container_bytes,
    network_from_arrays,
    network_to_arrays,
    pack_strings,
    read_container,
    unpack_strings,
)
from pbdn.gibbs.chain import ChainSettings
from pbdn.model.priors import Hyperpriors
from pbdn.sgd.map_settings import MapSettings

_TRANSIENT = ("n_jobs", "verbose", "checkpoint", "time_limit")
CONFIGURATIONS: dict[str, Any] = {"priors": Hyperpriors, "gibbs_config": GibbsConfig, "map_config": MapConfig}


def save_estimator(estimator: Any, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator, with ``extra`` plain values in the header (see `read_extra`)."""
    atomic_write(path, estimator_bytes(estimator, extra))


def read_extra(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Class name of the stored estimator and the extra values it was saved with."""
    header, _ = read_container(path, kind="model")
    extra = header.get("extra") or {}
    if not isinstance(extra, dict):
        raise FileFormatError(f"{os.fspath(path)!r} is not a complete pbdn model: its extra values are no object.")
    return str(header.get("estimator")), extra


def estimator_bytes(estimator: Any, extra: dict[str, Any] | None = None) -> bytes:
    """The bytes that `save_estimator` writes."""
    header, arrays = estimator_parts(estimator)
    if extra is not None:
        header["extra"] = extra
    return container_bytes(header, arrays)


def estimator_parts(estimator: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays of a fitted estimator."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    parameters = stored_parameters(estimator)
    if "criterion" in parameters:
        parameters["criterion"] = _name(parameters["criterion"])
    if isinstance(parameters.get("class_weight"), dict):  # labels need not be strings
        parameters["class_weight"] = [list(pair) for pair in parameters["class_weight"].items()]
    arrays: dict[str, Any] = {}
    if hasattr(estimator, "feature_names_in_"):
        arrays["feature_names_in"] = pack_strings([str(name) for name in estimator.feature_names_in_])
    importances = getattr(estimator, "feature_importances_", None)
    if importances is not None:
        arrays["feature_importances"] = np.asarray(importances)
    if estimator._stand_ins is not None:
        arrays["stand_ins"] = np.asarray(estimator._stand_ins)
    for name in estimator._stored:
        arrays[f"attribute.{name}"] = np.asarray(getattr(estimator, name), dtype="<f8")
    header: dict[str, Any] = {
        "kind": "model",
        "schema": SCHEMA_VERSION,
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "config": asdict(replace(estimator.config_, criterion=_name(estimator.config_.criterion))),
        **({"classes": estimator.classes_} if estimator._has_classes else {}),
        "n_features_in": estimator.n_features_in_,
        "criterion_path": estimator.criterion_path_,
        "trials": estimator.trials_,
        "convergence": estimator.convergence_,
    }
    if hasattr(estimator, "preparation_"):
        header["preparation"] = estimator.preparation_.preparation_.to_json()
    models = getattr(estimator, "models_", ())
    if models:  # each whole
        parts = [estimator_parts(model) for model in models]
        header["models"] = [part for part, _ in parts]
        for j, (_, own) in enumerate(parts):
            arrays.update({f"model{j}.{name}": array for name, array in own.items()})
    elif estimator.network_ is None:
        header["only_class"] = int(estimator.only_class_)
    else:
        header["network"], own = network_to_arrays(estimator.network_)
        arrays.update(own)
        for j, network in enumerate(estimator.paths_):
            part, more = network_to_arrays(network)
            header.setdefault("paths", []).append(part)
            arrays.update({f"path{j}.{name}": array for name, array in more.items()})
    return header, arrays


def stored_parameters(estimator: Any) -> dict[str, Any]:
    """Constructor parameters as a file holds them: without those of one run, configurations as plain values."""
    parameters = {
        name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        for name, value in estimator.get_params(deep=False).items()
        if name not in _TRANSIENT
    }
    if not isinstance(parameters.get("random_state"), int | np.integer | None):
        parameters["random_state"] = None
    return parameters


def restored_parameters(stored: dict[str, Any]) -> dict[str, Any]:
    """Inverse of `stored_parameters`."""
    parameters = dict(stored)
    for name, kind in CONFIGURATIONS.items():
        if isinstance(parameters.get(name), dict):
            parameters[name] = kind(**parameters[name])
    return parameters


def _name(criterion: Any) -> str:
    """A criterion as a file holds it: code is not stored."""
    return criterion if isinstance(criterion, str) else str(getattr(criterion, "__name__", "custom"))


def load_estimator(cls: Any, path: str | os.PathLike[str]) -> Any:
    """Read an estimator of class ``cls``."""
    header, arrays = read_container(path, kind="model")
    return estimator_from_parts(cls, header, arrays, path)


def estimator_from_parts(cls: Any, header: Any, arrays: dict[str, Any], path: str | os.PathLike[str]) -> Any:
    """Inverse of `estimator_parts`; errors name the file ``path``."""
    try:
        return _build(cls, header, arrays, path)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise FileFormatError(f"{os.fspath(path)!r} is not a complete pbdn model: {error}.") from error


def _build(cls: Any, header: dict[str, Any], arrays: dict[str, Any], path: str | os.PathLike[str]) -> Any:
    check_schema(header["schema"])
    if header["estimator"] != cls.__name__:
        raise InvalidInputError(
            f"{os.fspath(path)!r} holds a {header['estimator']}; load it with {header['estimator']}.load."
        )
    parameters = restored_parameters(header["parameters"])
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    estimator = cls(**parameters)
    if cls._has_classes:
        estimator.classes_ = np.asarray(header["classes"])
    estimator.n_features_in_ = int(header["n_features_in"])
    if "feature_names_in" in arrays:
        estimator.feature_names_in_ = np.asarray(unpack_strings(arrays["feature_names_in"]), dtype=object)
    estimator._importances, estimator._stand_ins = arrays.get("feature_importances"), arrays.get("stand_ins")
    for name in cls._stored:
        setattr(estimator, name, arrays[f"attribute.{name}"])
    estimator.network_, estimator.paths_ = None, ()
    if "network" in header:
        estimator.network_ = network_from_arrays(header["network"], arrays)
        parts = enumerate(header.get("paths", []))
        estimator.paths_ = tuple(network_from_arrays(part, with_prefix(f"path{j}.", arrays)) for j, part in parts)
    elif "models" in header:
        models = zip(cls._kinds_of_models(len(header["models"])), header["models"], strict=False)
        estimator.models_ = tuple(
            _build(kind, part, with_prefix(f"model{j}.", arrays), path) for j, (kind, part) in enumerate(models)
        )
    else:
        estimator.only_class_ = int(header["only_class"])
    if estimator._stand_ins is not None and estimator._stand_ins.shape != (estimator.n_features_in_,):
        raise FileFormatError(f"{os.fspath(path)!r} is not a complete pbdn model: its medians do not fit its features.")
    if "preparation" in header:
        estimator._restore_preparation(header["preparation"])
    estimator.config_ = _fit_config(header["config"])
    estimator.criterion_path_, estimator.trials_ = header["criterion_path"], header["trials"]
    estimator.convergence_, estimator.trace_ = header["convergence"], []
    return estimator


def _fit_config(stored: dict[str, Any]) -> FitConfig:
    """What the fit ran with, as it was when the file was written."""
    chain = ChainSettings(**stored["chain"] | {"priors": Hyperpriors(**stored["chain"]["priors"])})
    parts = {"gibbs": GibbsSettings(**stored["gibbs"]), "chain": chain, "map": MapSettings(**stored["map"])}
    alone = stored.get("alone")
    return FitConfig(**stored | parts | {"alone": None if alone is None else MapSettings(**alone)})


def with_prefix(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays of one part, under their own names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
