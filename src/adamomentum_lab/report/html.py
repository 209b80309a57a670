"""Pages for the browser: one look, nothing fetched from elsewhere, everything escaped."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any


def render(body: str, filters: Mapping[str, Callable[..., Any]] = {}, **values: Any) -> str:
    """A page from the template of its body, which fills the blocks `title`, `head` and `body`.

    `filters` are functions that the template may use beside those of Jinja and `shown`.
    """
    from jinja2 import DictLoader, Environment, StrictUndefined

    templates = {"base": _BASE, "page": '{% extends "base" %}' + body}
    environment = Environment(
        loader=DictLoader(templates), autoescape=True, trim_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {"shown": shown, **filters}
    return environment.get_template("page").render(**values)


def shown(value: Any) -> str:
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


_BASE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{% block title %}{% endblock %}</title>
<style>
:root { --ink: #1b1f24; --paper: #fff; --line: #d5d9de; --soft: #f4f6f8;
  --holds: #00684a; --only: #8a5a00; --not: #a3241c; --link: #0b5cad }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --paper: #15181c; --line: #3a4048;
  --soft: #1f242a; --holds: #5fd0a8; --only: #f0b85a; --not: #ff8d83; --link: #7db8f5 } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 58rem; margin: 0 auto; padding: 1rem }
h1 { line-height: 1.2 } h2 { margin-top: 2rem; font-size: 1.2rem }
a { color: var(--link) }
img { max-width: 100%; height: auto; background: #fff; border: 1px solid var(--line) }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem }
caption { text-align: left; font-weight: 600; padding: .3rem 0 }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem; text-align: left;
  vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.word { font-weight: 700; white-space: nowrap }
.holds { color: var(--holds) } .holds-only-when { color: var(--only) }
.does-not-hold { color: var(--not) }
.verdict { border-left: .4rem solid currentColor; padding: .5rem 1rem; background: var(--soft) }
@media (max-width: 40rem) { .findings td, .findings th { display: block; border: 0 }
  .findings tr { display: block; border-bottom: 1px solid var(--line); padding: .5rem 0 }
  .findings thead { display: none } }
footer { margin-top: 3rem; font-size: .85rem; border-top: 1px solid var(--line) }
</style>
{% block head %}{% endblock %}
</head>
<body>
{% block body %}{% endblock %}
</body>
</html>
"""
