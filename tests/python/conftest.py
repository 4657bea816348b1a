"""Gathers what the OpInfo sweep showed in all of pytest's processes, and reports it at the end."""

import pickle

import pytest

SWEEPS = pytest.StashKey[list]()  # of this process: opinfo_sweep.Sweep
SHARDS = pytest.StashKey[list]()  # of all processes: opinfo_sweep.Shard


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SWEEPS] = []
    config.stash[SHARDS] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
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
    if shards := getattr(node, "workeroutput", {}).get("shards"):
        node.config.stash[SHARDS] += pickle.loads(shards)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.stash[SHARDS]:
        return
    from opinfo_sweep import nothing

    total = nothing()
    for shard in config.stash[SHARDS]:
        total.add(shard)
    terminalreporter.section("OpInfo sweep")
    for line in total.summary():
        terminalreporter.line(line)
