"""The table of higher-order operators in docs/higher-order-ops.md: rows, columns, and what is marked in which cell.

A cell without a mark passes in all of the ways to record. What does not is marked with its kind and reason; a mark that
does not hold any more is an error too.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from higher_order_cells import COLUMNS, EVERYWHERE, NotReplayed, RecordedAgain, run
from higher_order_programs import PROGRAMS
from higher_order_wrong_calls import REJECTIONS

ROWS: dict[str, str] = {
    "H1": "`cond`",
    "H2": "`while_loop`",
    "H3": "`while_loop_stack_output`",
    "H4": "`map`",
    "H5": "`executorch_call_delegate`",
    "H6": "`out_dtype`",
    "H7": "`wrap`",
    "H8": "`hints_wrapper`",
    "H9": "`flex_attention`",
    "H10": "`flex_attention_backward`",
    "H11": "`wrap_activation_checkpoint`",
    "H12": "`checkpoint`",
    "H12s": "`checkpoint`, selective",
    "H12t": "`tag_activation_checkpoint`",
    "H13": "`_export_tracepoint`",
    "H14": "`trace_wrapped`",
    "H15": "`strict_mode`",
    "H16": "`run_with_rng_state`",
    "H17": "`associative_scan`, generic",
    "H18": "`scan`",
    "H19": "`call_torchbind`",
    "H20": "`wrap_with_set_grad_enabled`",
    "H21": "`wrap_with_autocast`",
    "H22": "`dynamo_bypassing_wrapper`",
    "H23": "`auto_functionalized`",
    "H24": "`auto_functionalized_v2`",
    "H25": "`invoke_subgraph`",
    "H25n": "`nested_compile_region`",
    "H26": "`custom_function_call`",
    "H27": "`local_map_hop`",
    "H28": "`print`",
    "H29": "`inline_asm_elementwise`",
    "H30": "`invoke_quant`, `invoke_quant_packed`, `foreach_map`",
    "H31": "`vmap`, `grad`, `vjp`, `jvp`, `jacrev`, `jacfwd`, `hessian`",
    "H32": "`functional_call`",
    "H33": "parameters that are swapped for a while",
    "H34": "`torch.autograd.Function`",
    "H35": "what a `torch.autograd.Function` may not do",
    "H36": "kernels of the user's for GPUs",
    "H37": "`with_effects`",
    "H38": "`run_and_save_rng_state`",
    "H39": "`flat_apply`",
}
# H9: second derivatives of a softmax in float32, whose sums are in another order (1e-14 in float64). H21: bfloat16.
TOLERANCES = {"H9": 1e-3, "H21": 2e-2}


@dataclass(frozen=True)
class Mark:
    """What is not plain "yes" about a cell.

    ``kind`` is "eagerly" or "again" (``saker.compile`` gives the results, and keeps no recording or one for each size),
    "as eager" (raises what eager mode raises), "refused" (raises an error of ours), or "none" (does not apply).
    """

    kind: str
    reason: str
    entries: tuple[str, ...] = EVERYWHERE
    stop: str = ""  # the name of the reason why it runs eagerly


def _eagerly(stop: str, reason: str) -> Mark:
    return Mark("eagerly", f"{reason} (`{stop}`)", ("compile",), stop)


_NO_DERIVATIVE = Mark("as eager", "PyTorch has no derivative of it: a backward raises, as in eager mode")
_NO_BATCH = Mark("as eager", "PyTorch has no rule of `vmap` for it, and raises")
_OPAQUE = _eagerly("computes-with", "it is called as it is, and the call runs eagerly")
_IMPORTS = (
    "it is recorded for each size: with symbols the operator's code on meta tensors imports a module of PyTorch's"
)
_DISPATCHES = "it is recorded for each size: with symbols PyTorch's dispatch in Python is watched, and asks for keys"
_STEPS = (
    "a call whose loop takes another number of steps than the one that was recorded, which is a size of its results; "
    "with `dynamic=True` all are replayed"
)
_BRANCHES_OF_SIZES = "a branch whose results have a size that data tells runs as Python code, which needs data"
_EACH_CALL = "it does something in each call, which a graph does not"
_OPAQUE_BODY = _eagerly("computes-with", "the branch that is taken runs as Python code, and the call runs eagerly")
_OPAQUE_BODY_OF_SIZES = _eagerly("depends-on-data", _BRANCHES_OF_SIZES)
_CAPTURED = ("capture", "aot_function")


def _refused(reason: str, *entries: str) -> Mark:
    return Mark("refused", reason, entries)


def _only(**marks: tuple[Mark, ...]) -> dict[str, tuple[Mark, ...]]:
    return {name.replace("_", " "): each for name, each in marks.items()}


_DERIVATIVES = ("backward", "double backward")
_WRITER = _only(
    vmap=(Mark("refused", "PyTorch has no rule of `vmap` for operators of the user's that write"),),
    dynamic=(Mark("again", _IMPORTS, ("compile",)),),
)
MARKS: dict[str, dict[str, tuple[Mark, ...]]] = {
    "H3": {
        "forward": (_eagerly("size-changed", _STEPS),),
        "nested": (_OPAQUE_BODY_OF_SIZES, _refused(_BRANCHES_OF_SIZES, *_CAPTURED)),
        **dict.fromkeys(_DERIVATIVES, (_NO_DERIVATIVE,)),
        "vmap": (_NO_BATCH,),
    },
    "H5": {
        **dict.fromkeys(("forward", "nested", "dynamic"), (_OPAQUE,)),
        **dict.fromkeys(_DERIVATIVES, (_NO_DERIVATIVE,)),
        "vmap": (_NO_BATCH,),
    },
    "H6": dict.fromkeys(_DERIVATIVES, (_NO_DERIVATIVE,)),
    "H12s": _only(
        double_backward=(
            Mark("as eager", "such checkpoints have no second backward", ("compile", "capture", "deferred")),
        ),
    ),
    "H13": dict.fromkeys(_DERIVATIVES, (_NO_DERIVATIVE,)),
    "H19": {
        **dict.fromkeys(("forward", *_DERIVATIVES, "dynamic"), (_OPAQUE, _refused(_EACH_CALL, *_CAPTURED))),
        "vmap": (
            Mark("as eager", _NO_BATCH.reason, ("compile", "deferred")),
            _refused(_EACH_CALL, *_CAPTURED),
        ),
        "nested": (_OPAQUE_BODY, _refused(_EACH_CALL, *_CAPTURED)),
    },
    "H23": _WRITER,
    "H24": _WRITER,
    "H28": {
        "dynamic": (Mark("again", _DISPATCHES, ("compile",)),),
        "vmap": (
            Mark("as eager", _NO_BATCH.reason, ("compile", "aot_function", "deferred")),
            _refused(_EACH_CALL, "capture"),
        ),
        "nested": (_OPAQUE_BODY,),
    },
}

# Rows that no program can show here, and why.
WITHOUT_PROGRAM: dict[str, str] = {
    "H10": "autograd's half of `flex_attention`, seen in the row above; alone it takes graphs of PyTorch's compiler",
    "H14": "it is part of `torch._dynamo`, and marks hooks for its second capture",
    "H27": "TorchDynamo makes it of `local_map`, which is Python code over DTensors without it",
    "H29": "it runs on GPUs; on CPUs it is refused as in eager mode",
    "H35": "only what is refused",
    "H36": "they need Triton and a GPU",
}
WITHOUT_REJECTIONS = "PyTorch checks nothing of its own in calls of it on CPUs; what its function raises is raised"


def marks_of(row: str, column: str) -> tuple[Mark, ...]:
    if row in WITHOUT_PROGRAM:
        return (Mark("none", WITHOUT_PROGRAM[row]),)
    return MARKS.get(row, {}).get(column, ())


def cells() -> list[tuple[str, str, str]]:
    """Those that are run: row, column, way to record."""
    return [(row, column, entry) for row in PROGRAMS for column, (_, entries) in COLUMNS.items() for entry in entries]


def _raised(row: str, column: str, entry: str) -> Exception | None:
    program, plain = PROGRAMS[row]
    try:
        run(column, entry, program, plain, TOLERANCES.get(row, 1e-4))
    except Exception as error:
        return error.with_traceback(None)
    return None


def _base(error: Exception) -> type:
    known = (AssertionError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError)
    return next(each for each in known if isinstance(error, each))


def check(row: str, column: str, entry: str) -> None:
    """Raises if the cell is not as it is marked."""
    mark = next((mark for mark in marks_of(row, column) if entry in mark.entries), None)
    found = _raised(row, column, entry)
    if mark is None:
        if found is not None:
            raise found
        return
    assert found is not None, f"it passes, and is marked: {mark.reason}"
    if mark.kind == "eagerly":
        assert isinstance(found, NotReplayed) and mark.stop in str(found), repr(found)
    elif mark.kind == "again":
        assert isinstance(found, RecordedAgain), repr(found)
    elif mark.kind == "as eager":
        eager = _raised(row, column, "eager")
        assert eager is not None and not isinstance(eager, AssertionError), f"eager mode: {eager!r}"
        assert isinstance(found, _base(eager)), f"{found!r}, and in eager mode {eager!r}"
    else:
        assert isinstance(found, RuntimeError) and not isinstance(found, AssertionError), repr(found)


# --- the page ---

_SAID = {"eagerly": "runs eagerly", "again": "again for each size", "as eager": "no", "refused": "refused", "none": "-"}


_PASS, _NONE = "pass", "do not apply"
_SLOW = "pass with a call that `saker.compile` runs eagerly, or records for each size"
_REFUSED = "are refused as in eager mode"
_DIFFER = "differ from eager mode (a way to record refuses)"


def _count_of(kinds: set[str]) -> str:
    for kind, what in (("none", _NONE), ("refused", _DIFFER), ("as eager", _REFUSED)):
        if kind in kinds:
            return what
    return _SLOW


class Table:
    """The lines of the page, and counts of cells."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.counts = dict.fromkeys((_PASS, _SLOW, _REFUSED, _DIFFER, _NONE), 0)
        columns = [*COLUMNS, "rejections"]
        self.rows = [
            f"| row | operator | {' | '.join(columns)} |",
            f"|---|---|{'---|' * len(columns)}",
        ]
        for row, name in ROWS.items():
            texts = [self._cell(row, column) for column in COLUMNS]
            self.rows.append(f"| {row} | {name} | {' | '.join([*texts, self._rejections(row)])} |")

    def _note(self, reason: str) -> str:
        if reason not in self.notes:
            self.notes.append(reason)
        return f"[{self.notes.index(reason) + 1}]"

    def _cell(self, row: str, column: str) -> str:
        marks, entries = marks_of(row, column), COLUMNS[column][1]
        if not marks:
            self.counts[_PASS] += 1
            return "yes"
        told = {mark: [entry for entry in entries if entry in mark.entries] for mark in marks}
        covered = {entry for each in told.values() for entry in each}
        self.counts[_count_of({mark.kind for mark in marks})] += 1
        parts = [] if covered == set(entries) else ["yes"]
        for mark, where in told.items():
            at = "" if len(where) == len(entries) else f"{', '.join(f'`{entry}`' for entry in where)}: "
            parts.append(f"{at}{_SAID[mark.kind]} {self._note(mark.reason)}")
        return "; ".join(parts)

    def _rejections(self, row: str) -> str:
        count = sum(each.row == row for each in REJECTIONS)
        if not count:
            self.counts[_NONE] += 1
            return f"- {self._note(WITHOUT_REJECTIONS)}"
        self.counts[_PASS] += 1
        return f"{count} calls" if count > 1 else "1 call"

    def lines(self) -> list[str]:
        counted = "; ".join(f"{number} {what}" for what, number in self.counts.items())
        notes = [
            line
            for number, note in enumerate(self.notes, 1)
            for line in textwrap.wrap(
                f"{number}. {note}.", 120, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False
            )
        ]
        summary = textwrap.wrap(f"Of {sum(self.counts.values())} cells {counted}.", 120)
        return [*self.rows, "", *summary, "", *notes]
