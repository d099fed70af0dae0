"""A few lines of HTML for notebooks."""

from html import escape
from typing import Any


def html_summary(estimator: Any) -> str:
    """What was learned, below scikit-learn's own picture; empty before the fit."""
    if getattr(estimator, "network_", None) is None:
        return ""
    lines = "".join(
        f"<tr><td>{step['depth']}</td><td>{escape(' + '.join(map(str, step['n_experts'])))}</td>"
        f"<td>{step['criterion']:.1f}</td><td>{'kept' if step['kept'] else 'dropped'}</td></tr>"
        for step in estimator.criterion_path_
    )
    classes = ", ".join(escape(str(label)) for label in estimator.classes_.tolist()[:10])
    return (
        f"<p>{estimator.depth_} layer(s), {estimator.n_weights_} weights, {estimator.n_features_in_} features; "
        f'classes {classes}.</p><table style="border-spacing: 12px 2px"><thead><tr><th>layer</th><th>experts</th><th>criterion</th><th></th></tr>'
        f"</thead><tbody>{lines}</tbody></table>"
    )
