"""Pages for the browser: one look, nothing fetched from elsewhere, everything escaped."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def render(body: str, filters: Mapping[str, Callable[..., Any]] = {}, **values: Any) -> str:
    """A page from the template of its body, which fills the blocks `title`, `head` and `body`.

    `filters` are functions that the template may use beside those of Jinja and `shown`.
    """
    from jinja2 import DictLoader, Environment, StrictUndefined

    base = Path(__file__).with_name("page.base.html").read_text(encoding="utf-8")
    templates = {"base": base, "page": '{% extends "base" %}' + body}
    environment = Environment(
        loader=DictLoader(templates), autoescape=True, trim_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {"shown": format_value, **filters}
    return environment.get_template("page").render(**values)


def format_value(value: Any) -> str:
    """A number as people read it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if value and not 1e-3 <= abs(value) < 1e5:
            return f"{value:.2e}"
        digits = 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
        return f"{value:,.{digits}f}" if math.isfinite(value) else str(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
