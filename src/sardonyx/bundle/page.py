"""The report as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from sardonyx.report import Report

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --paper: #fff; --line: #d5dae0; --good: #1a7f4b; --bad: #c0322b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --paper: #15181c; --line: #3a424b; --good: #4cc38a; --bad: #ff7b72; }
}
body {
  margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 60rem;
  font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
}
h1 { font-size: 1.5rem; } h1 b { color: var(--good); } h1.bad b { color: var(--bad); }
h2 { font-size: 1.1rem; margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; display: block; overflow-x: auto; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td {
  text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; font-variant-numeric: tabular-nums;
}
@media print { body { max-width: none; } table { display: table; } }
"""


def render(summary: Report, stages: Sequence[Report]) -> str:
    """An HTML document: the verdict on top, then every stage."""
    title = f"{summary.fields['source']}: {summary.verdict}"
    mark = "" if summary.ok else ' class="bad"'
    body = "".join(report.to_html() for report in stages)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1{mark}>{escape(summary.fields['source'])}: <b>{escape(summary.verdict)}</b></h1>"
        f"{summary.to_html()}{body}</body></html>\n"
    )
