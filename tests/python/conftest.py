"""Gathers what the OpInfo sweep showed in all of pytest's processes, and reports it at the end."""

import pickle
from collections.abc import Iterable

import pytest

SWEEPS = pytest.StashKey[list]()  # of this process: opinfo_sweep.Sweep
AOT_SWEEP = pytest.StashKey[list]()  # aot_opinfo.Outcome, of this process, and at the end of all
REPLAY_SWEEP = pytest.StashKey[list]()  # replay_opinfo.Outcome, likewise
SHARDS = pytest.StashKey[list]()  # of all processes: opinfo_sweep.Shard


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SWEEPS] = []
    config.stash[SHARDS] = []
    config.stash[AOT_SWEEP] = []
    config.stash[REPLAY_SWEEP] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.stash[AOT_SWEEP] and hasattr(session.config, "workeroutput"):
        session.config.workeroutput["aot sweep"] = pickle.dumps(session.config.stash[AOT_SWEEP])
    if session.config.stash[REPLAY_SWEEP] and hasattr(session.config, "workeroutput"):
        session.config.workeroutput["replay sweep"] = pickle.dumps(session.config.stash[REPLAY_SWEEP])
    if not session.config.stash[SWEEPS]:
        return
    from opinfo_sweep import shard_of

    shards = [shard_of(sweep) for sweep in session.config.stash[SWEEPS]]
    output = getattr(session.config, "workeroutput", None)  # what a worker of pytest-xdist sends home
    if output is None:
        session.config.stash[SHARDS] += shards
    else:
        output["shards"] = pickle.dumps(shards)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    if outcomes := getattr(node, "workeroutput", {}).get("aot sweep"):
        node.config.stash[AOT_SWEEP] += pickle.loads(outcomes)
    if outcomes := getattr(node, "workeroutput", {}).get("replay sweep"):
        node.config.stash[REPLAY_SWEEP] += pickle.loads(outcomes)
    if shards := getattr(node, "workeroutput", {}).get("shards"):
        node.config.stash[SHARDS] += pickle.loads(shards)


def report_aot_sweep(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.stash[AOT_SWEEP]:
        return
    from aot_opinfo import Outcome, summary

    total = Outcome()
    for outcome in config.stash[AOT_SWEEP]:
        total.add(outcome)
    write_section(terminalreporter, "OpInfo sweep through aot_function", summary(total))


def report_replay_sweep(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.stash[REPLAY_SWEEP]:
        return
    from replay_opinfo import Outcome, summary

    total = Outcome()
    for outcome in config.stash[REPLAY_SWEEP]:
        total.add(outcome)
    write_section(terminalreporter, "OpInfo sweep over replays", summary(total))


def write_section(terminalreporter: pytest.TerminalReporter, title: str, lines: Iterable[str]) -> None:
    terminalreporter.section(title)
    for line in lines:
        terminalreporter.line(line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    report_aot_sweep(terminalreporter, config)
    report_replay_sweep(terminalreporter, config)
    if not config.stash[SHARDS]:
        return
    from opinfo_sweep import nothing

    total = nothing()
    for shard in config.stash[SHARDS]:
        total.add(shard)
    write_section(terminalreporter, "OpInfo sweep", total.summary())
