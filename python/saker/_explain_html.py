"""Explanations as HTML: one page without scripts, or a part of a notebook. Both follow the reader's colour scheme."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saker._explain import Break, Explanation

# A page is to be sent by mail and read on a phone: what does not fit is in the object, and the page says where.
_GRAPH_CHARACTERS = 36_000
_GUARDS = 120
_GUARD_CHARACTERS = 10_000

_STYLE = """
.saker{--ink:#1c2430;--soft:#5b6675;--paper:#fff;--card:#f4f6f9;--line:#d9dee6;--good:#1f7a4d;
--bad:#b3401f;--bar:#3b6fd4;--other:#9aa7b8;color:var(--ink);background:var(--paper);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
max-width:62rem;margin:0 auto;padding:1.25rem 1rem 2rem;overflow-wrap:anywhere;box-sizing:border-box}
@media(prefers-color-scheme:dark){.saker{--ink:#e4e8ee;--soft:#9ba6b5;--paper:#14181e;--card:#1d232c;--line:#323b48;
--good:#5fc795;--bad:#f0906c;--bar:#7aa5f5;--other:#566274}}
.saker *{box-sizing:border-box}
.saker h1{font-size:1.45rem;margin:0 0 .15rem;line-height:1.25}
.saker h2{font-size:1.05rem;margin:1.8rem 0 .5rem}
.saker p{margin:.3rem 0}.saker .bars+p{margin-top:.9rem}.saker .soft{color:var(--soft)}
.saker .good{color:var(--good)}.saker .bad{color:var(--bad)}
.saker .cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.6rem;margin:1rem 0}
.saker .card{background:var(--card);border-radius:.5rem;padding:.6rem .75rem}
.saker .card b{display:block;font-size:1.3rem;line-height:1.3}.saker .card span{color:var(--soft);font-size:.85rem}
.saker .stop{border-left:.25rem solid var(--bad);background:var(--card);border-radius:.3rem;padding:.6rem .8rem;
margin:.6rem 0}
.saker .bars{display:grid;grid-template-columns:minmax(0,15rem) minmax(3rem,1fr) minmax(6.5rem,max-content);
gap:.3rem .75rem;align-items:center;font-size:.9rem}
.saker .track{background:var(--card);border-radius:.25rem;height:.8rem;overflow:hidden}
.saker .track i{display:block;height:100%;min-width:2px;background:var(--bar);border-radius:.25rem}
.saker .track .slow{background:var(--other)}
.saker .bars span{text-align:right;font-variant-numeric:tabular-nums}
.saker code,.saker pre{font:.85em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.saker pre{background:var(--card);color:var(--ink);border-radius:.5rem;padding:.7rem .8rem;margin:.5rem 0;
overflow-x:auto;max-height:30rem;overflow-y:auto;white-space:pre}
.saker pre.wrap{white-space:pre-wrap}
.saker details{border-top:1px solid var(--line);padding:.45rem 0}
.saker details:last-of-type{border-bottom:1px solid var(--line)}
.saker summary{cursor:pointer}.saker summary span{color:var(--soft)}
@media(max-width:34rem){.saker{padding:1rem .8rem 1.5rem}.saker .bars{grid-template-columns:minmax(0,1fr) max-content}
.saker .bars .track{grid-column:1/-1;margin-bottom:.25rem}.saker .bars span{grid-column:2}
.saker .bars{grid-auto-flow:dense}}
"""


def _bars(rows: Iterable[tuple[str, float, str, bool]]) -> str:
    """A row for each of (name, number, its text, in the other colour), as long as the number is."""
    rows = list(rows)
    longest = max((number for _, number, _, _ in rows), default=0) or 1
    parts = []
    for name, number, text, other in rows:
        kind = ' class="slow"' if other else ""
        parts.append(
            f'<code>{html.escape(name)}</code><div class="track"><i{kind} style="width:{100 * number / longest:.1f}%">'
            f"</i></div><span>{html.escape(text)}</span>"
        )
    return f'<div class="bars">{"".join(parts)}</div>'


def _card(number: str, text: str, kind: str = "") -> str:
    return f'<div class="card"><b class="{kind}">{html.escape(number)}</b><span>{html.escape(text)}</span></div>'


def _details(title: str, count: str, body: str, *, wrap: bool = False, opened: bool = False) -> str:
    return (
        f"<details{' open' if opened else ''}><summary>{html.escape(title)} <span>{html.escape(count)}</span></summary>"
        f'<pre{" class=wrap" if wrap else ""} tabindex="0">{html.escape(body, quote=False)}</pre></details>'
    )


def _shortened(text: str, most: int, rest: str) -> str:
    """Whole lines of it, and where the rest is."""
    if len(text) <= most:
        return text
    kept = text[: text.rfind("\n", 0, most) + 1] or text[:most]
    return f"{kept}... {text.count(chr(10), len(kept)) + 1} more lines in {rest}"


def _stop(each: Break) -> str:
    where = f"<p><code>{html.escape(each.where)}</code></p>" if each.where else ""
    source = f'<pre class="wrap">{html.escape(each.source, quote=False)}</pre>' if each.source else ""
    return (
        f'<div class="stop"><p><b>{html.escape(each.reason)}</b> <span class="soft">{html.escape(each.name)}</span></p>'
        f"{where}{source}<p>{html.escape(each.hint)}</p></div>"
    )


def _cards(told: Explanation) -> str:
    from saker._explain import size

    cards = [
        _card(
            "whole" if told.captured else "eager",
            ("captured at the second call" if told.first else "captured") if told.captured else "not captured",
            "good" if told.captured else "bad",
        ),
        _card(str(sum(told.operators.values())), "operators in " + _plural(len(told.graphs), "graph")),
        _card(str(len(told.guards)), "guards"),
    ]
    if told.timing and told.timing.speedup:
        cards.insert(1, _card(f"{told.timing.speedup:.2f}x", "as fast as eager mode"))
    if told.backward:
        cards.append(_card(str(sum(told.backward_operators.values())), "operators in the backward"))
        cards.append(_card(size(sum(each.bytes for each in told.saved)), "saved for the backward"))
    return f'<div class="cards">{"".join(cards)}</div>'


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _time(told: Explanation) -> str:
    from saker._explain import duration

    rows: list[tuple[str, float, str, bool]] = []
    if told.timing:
        rows.append(("eager mode", told.timing.eager, duration(told.timing.eager), True))
        if told.timing.replay is not None:
            rows.append(("replayed", told.timing.replay, duration(told.timing.replay), False))
    parts = ["<h2>Time</h2>"]
    if rows:
        parts += [f'<p class="soft">A later call, {told.timing.told}</p>', _bars(rows)]
    else:
        parts.append(f'<p class="soft">Later calls were not measured: {html.escape(told.not_timed)}</p>')
    first = [(name, seconds, duration(seconds), False) for name, seconds in told.seconds.items()]
    calls = "Both calls that were recorded" if told.first else "This call, the first one"
    parts += [f'<p class="soft">{calls}</p>', _bars(first)]
    if told.stages:
        parts.append('<p class="soft">Stages of compiling</p>')
        parts.append(_bars((name, seconds, duration(seconds), False) for name, seconds in told.stages.items()))
    return "".join(parts)


def _operators(told: Explanation) -> str:
    from saker._explain import duration, share

    rows = told.timing.operators if told.timing else []
    parts = ["<h2>Operators</h2>"]
    if rows:
        total = sum(row.seconds for row in rows)
        parts.append(f'<p class="soft">The slowest of the recorded graph, {duration(total)} in all</p>')
        parts.append(
            _bars(
                (
                    f"{row.name} x{row.count}",
                    row.seconds,
                    f"{duration(row.seconds)}, {share(row.seconds, total)}",
                    False,
                )
                for row in rows[:10]
            )
        )
    elif told.operators:
        parts.append('<p class="soft">How often each is called</p>')
        parts.append(_bars((name, count, str(count), False) for name, count in list(told.operators.items())[:10]))
    if told.bodies:
        bodies = ", ".join(f"{count} of {name}" for name, count in told.bodies.items())
        parts.append(f'<p class="soft">Bodies: {html.escape(bodies)}</p>')
    return "".join(parts) if len(parts) > 1 else ""


def _gradients(told: Explanation) -> str:
    if told.instead:
        return "<h2>Gradients</h2><p>They are computed by autograd, which follows the recording:</p>" + "".join(
            map(_stop, told.instead)
        )
    if told.followed and not told.backward:
        return "<h2>Gradients</h2><p>Autograd follows the one small operator, as in eager mode.</p>"
    if not told.backward:
        return ""
    from saker._explain import size

    saved = "".join(
        f"<p>The forward keeps {_plural(each.tensors, 'tensor')} of {size(each.bytes)} for the backward, and reads "
        f"{_plural(each.inputs, 'input')} again.</p>"
        for each in told.saved
    )
    rows = [(name, count, str(count), False) for name, count in list(told.backward_operators.items())[:8]]
    return f'<h2>Gradients</h2>{saved}<p class="soft">Operators of the backward</p>{_bars(rows)}'


def _kernels(told: Explanation) -> str:
    parts = []
    for title, all_ in (("Of the graph", told.kernels), ("Of the backward", told.backward_kernels)):
        for each in all_:
            body = "\n\n".join(f"{group}\n{''.join(group.texts)}" for group in each.groups)
            body = _shortened(f"{each}\n\n{body}", _GRAPH_CHARACTERS // 4, ".kernels")
            parts.append(_details(title, _plural(len(each.groups), "group"), body))
    return f"<h2>Kernels</h2>{''.join(parts)}" if parts else ""


def _guards(told: Explanation) -> str:
    from saker._explain import GROUPS

    parts = []
    for name, texts in told.guard_groups.items():
        if not texts:
            continue
        if name == "internals":
            parts.append(
                f'<p class="soft">And {len(texts)} of {html.escape(GROUPS[name])}, in '
                '<code>.guard_groups["internals"]</code>.</p>'
            )
            continue
        where = f'.guard_groups["{name}"]'
        body = "\n".join(texts[:_GUARDS])
        if len(texts) > _GUARDS:
            body += f"\n... {len(texts) - _GUARDS} more in {where}"
        body = _shortened(body, _GUARD_CHARACTERS, where)
        parts.append(_details(f"On {GROUPS[name]}", str(len(texts)), body, wrap=True, opened=name == "arguments"))
    return f"<h2>Guards</h2>{''.join(parts)}" if parts else ""


def _graphs(told: Explanation) -> str:
    graphs = [("graphs", number, graph) for number, graph in enumerate(told.graphs)]
    graphs += [("backward", number, graph) for number, graph in enumerate(told.backward)]
    titles = {"graphs": "Recorded", "backward": "Backward"}
    parts = [
        _details(
            titles[kind],
            _plural(len(graph) - 1, "operator"),
            _shortened(graph.text, _GRAPH_CHARACTERS // max(len(graphs), 1), f".{kind}[{number}].text"),
        )
        for kind, number, graph in graphs
    ]
    return f"<h2>Graphs</h2>{''.join(parts)}" if parts else ""


def _body(told: Explanation) -> str:
    outcome = "captured whole" if told.captured else "runs eagerly"
    effects = f"; {told.effects} things are done besides the graph" if told.effects else ""
    parts = [
        f"<h1>{html.escape(told.function)}</h1>",
        f'<p class="soft">saker.explain: {outcome}, {_plural(told.frames, "Python frame")} watched{effects}</p>',
        _cards(told),
    ]
    if told.first:
        title = "The first call ran eagerly" + (", the second one is recorded in another way" if told.captured else "")
        parts.append(f"<h2>{title}</h2>" + "".join(map(_stop, told.first)))
    if told.breaks:
        parts.append("<h2>Not captured</h2>" + "".join(map(_stop, told.breaks)))
    parts += [_time(told), _operators(told), _gradients(told), _kernels(told), _guards(told), _graphs(told)]
    return "".join(parts)


def fragment(told: Explanation) -> str:
    """For a notebook, which has a page already."""
    return f'<style>{_STYLE}</style><div class="saker">{_body(told)}</div>'


def page(told: Explanation) -> str:
    """All of a file."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{html.escape(told.function)}: saker.explain</title>"
        f"<style>html,body{{margin:0;background:#fff}}@media(prefers-color-scheme:dark){{html,body{{background:#14181e}}}}"
        f'{_STYLE}</style></head><body><main class="saker">{_body(told)}</main></body></html>\n'
    )
