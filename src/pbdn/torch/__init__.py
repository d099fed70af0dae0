"""PBDNs on top of any PyTorch trunk: heads for your own modules, and a classifier of images. Needs the extra ``torch``."""

import importlib
from typing import TYPE_CHECKING, Any

from pbdn.errors import MissingExtraError

if TYPE_CHECKING:
    from pbdn.torch.classifier import ConvPBDNClassifier
    from pbdn.torch.head import ISHMHead, PBDNHead
    from pbdn.torch.network import NetworkModule, to_onnx

_PLACES = {
    "ConvPBDNClassifier": "classifier",
    "ISHMHead": "head",
    "NetworkModule": "network",
    "PBDNHead": "head",
    "to_onnx": "network",
}
__all__ = ["ConvPBDNClassifier", "ISHMHead", "NetworkModule", "PBDNHead", "to_onnx"]


def __getattr__(name: str) -> Any:
    """Import PyTorch when something of this room is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError(f"{name} needs PyTorch", "torch") from error


def __dir__() -> list[str]:
    return __all__
