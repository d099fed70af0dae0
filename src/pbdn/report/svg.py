"""Small pictures as SVG text: every label escaped, every mark with a title to hover."""

import base64
import html
import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLOURS = (
    "#2563a8", "#c2410c", "#0f766e", "#7e22ce", "#a16207", "#be185d", "#4d7c0f", "#475569", "#0ea5e9", "#f59e0b",
)  # fmt: skip
LEFT, BOTTOM, TOP, RIGHT = 62.0, 42.0, 12.0, 14.0


def esc(text: Any) -> str:
    """Text that cannot become markup."""
    return html.escape(str(text), quote=True)


def shorten(text: Any, length: int) -> str:
    """At most so many characters."""
    whole = str(text)
    return whole if len(whole) <= length else whole[: length - 1] + "…"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between two ends."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low] if math.isfinite(low) else []
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, int(math.floor(high / step + 1e-9)) + 1)]


class Chart:
    """Axes with linear scales; marks are added, then the text is taken with `svg`."""

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        x_label: str,
        y_label: str,
        *,
        size: tuple[float, float] = (460.0, 300.0),
        title: str = "",
        whole: bool = False,
    ) -> None:
        """Scales from data ranges; an empty range is widened. ``whole`` numbers only below the x axis."""
        self.width, self.height = size
        self.whole = whole
        self.x, self.y = _wide(x), _wide(y)
        self.title = title
        self.parts: list[str] = []
        self._axes(x_label, y_label)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Picture coordinates of a data point."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return (
            LEFT + across * (self.width - LEFT - RIGHT),
            self.height - BOTTOM - up * (self.height - BOTTOM - TOP),
        )

    def _axes(self, x_label: str, y_label: str) -> None:
        for value in [tick for tick in ticks(*self.x) if not self.whole or tick == round(tick)]:
            x, y = self.at(value, self.y[0])
            self.parts.append(f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{y:.1f}"/>')
            self.parts.append(f'<text x="{x:.1f}" y="{y + 14:.1f}" text-anchor="middle">{value:.5g}</text>')
        for value in ticks(*self.y):
            x, y = self.at(self.x[0], value)
            self.parts.append(f'<line class="grid" x1="{x:.1f}" y1="{y:.1f}" x2="{self.width - RIGHT}" y2="{y:.1f}"/>')
            self.parts.append(f'<text x="{x - 5:.1f}" y="{y + 4:.1f}" text-anchor="end">{value:.5g}</text>')
        middle = LEFT + (self.width - LEFT - RIGHT) / 2
        self.parts.append(
            f'<text x="{middle:.1f}" y="{self.height - 8}" text-anchor="middle">{esc(shorten(x_label, 60))}</text>'
        )
        centre = TOP + (self.height - BOTTOM - TOP) / 2
        self.parts.append(
            f'<text transform="translate(13 {centre:.1f}) rotate(-90)" text-anchor="middle">'
            f"{esc(shorten(y_label, 45))}</text>"
        )

    def line(self, xs: Sequence[float], ys: Sequence[float], colour: str, title: str = "", width: float = 1.5) -> None:
        """A broken line."""
        points = " ".join("{:.1f},{:.1f}".format(*self.at(x, y)) for x, y in zip(xs, ys, strict=True))
        self.parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}">'
            f"<title>{esc(title)}</title></polyline>"
        )

    def dot(
        self,
        x: float,
        y: float,
        colour: str,
        title: str,
        *,
        radius: float = 4.0,
        hollow: bool = False,
        stroke: str = "",
    ) -> None:
        """A point with a title."""
        cx, cy = self.at(x, y)
        fill = "white" if hollow else colour
        self.parts.append(
            f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="{radius}" fill="{fill}" stroke="{stroke or colour}">'
            f"<title>{esc(title)}</title></circle>"
        )

    def image(self, url: str, extent: tuple[float, float, float, float]) -> None:
        """A picture over a rectangle of data."""
        x0, y0 = self.at(extent[0], extent[3])
        x1, y1 = self.at(extent[1], extent[2])
        self.parts.append(
            f'<image x="{x0:.1f}" y="{y0:.1f}" width="{x1 - x0:.1f}" height="{y1 - y0:.1f}" '
            f'preserveAspectRatio="none" href="{url}"/>'
        )

    def raw(self, text: str) -> None:
        """A part that is already SVG."""
        self.parts.append(text)

    def svg(self, attributes: str = "") -> str:
        """The whole picture."""
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" role="img" aria-label="{esc(self.title)}" '
            f"{attributes}>{''.join(self.parts)}</svg>"
        )


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """A line of (mark, label): the mark is SVG of 22 x 12, the label plain text."""
    parts = [
        f'<span><svg viewBox="0 0 22 12" width="22" height="12">{mark}</svg> {esc(shorten(label, 40))}</span>'
        for mark, label in entries
    ]
    return f'<p class="legend">{"".join(parts)}</p>' if parts else ""


def line_mark(colour: str, dash: str = "", width: float = 2.0) -> str:
    """A stroke for a legend."""
    return f'<line x1="1" y1="6" x2="21" y2="6" stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dash}"/>'


def dot_mark(colour: str, stroke: str = "none") -> str:
    """A dot for a legend."""
    return f'<circle cx="11" cy="6" r="4" fill="{colour}" stroke="{stroke}"/>'


def _wide(ends: tuple[float, float]) -> tuple[float, float]:
    low, high = float(ends[0]), float(ends[1])
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.0, 1.0
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-300):
        edge = 0.5 * abs(low) or 0.5
        return low - edge, high + edge
    return low, high


def heat_png(values: NDArray[np.float64]) -> str:
    """Values in [0, 1], bottom row first, as a data URL of a blue-white-red PNG."""
    v = np.clip(values[::-1], 0.0, 1.0)[..., None]
    blue, white, red = np.array([33.0, 102, 172]), np.array([247.0, 247, 247]), np.array([178.0, 24, 43])
    rgb = np.where(v < 0.5, blue + (white - blue) * (2 * v), white + (red - white) * (2 * v - 1))
    return _png(rgb.round().astype(np.uint8))


def grey_png(values: NDArray[np.float64]) -> str:
    """Values in [0, 1], top row first, as a data URL of a PNG from black to white."""
    grey = np.rint(255 * np.clip(values, 0.0, 1.0)).astype(np.uint8)
    return _png(np.repeat(grey[..., None], 3, axis=-1))


def _png(pixels: NDArray[np.uint8]) -> str:
    """Pixels (height, width, 3), top row first, as a data URL."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    png = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()
