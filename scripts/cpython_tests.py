"""Runs CPython's own test modules in the watched loop, each test method as a root of its own, and compares with a plain
run: the same tests must pass, fail and be skipped, with the same messages.

    scripts/build_watch.sh python3.11 build/watch311
    PYTHONPATH=build/watch311 python3.11 scripts/cpython_tests.py test_generators test_with ...

Each module runs in processes of its own, plain and watched (--one MODULE --how plain|watched)."""

import argparse
import json
import os
import subprocess
import sys
import unittest


def load_loop():
    import importlib

    return importlib.import_module(os.environ.get("SAKER_WATCH_MODULE", "saker_watch"))


class Recorder(unittest.TestResult):
    """Outcomes by test, with the last line of what went wrong."""

    def __init__(self):
        super().__init__()
        self.outcomes = {}

    def note(self, test, outcome, error=None):
        name = str(test)
        text = "" if error is None else f"{error[0].__name__}: {str(error[1])[:200]}"
        self.outcomes.setdefault(name, []).append([outcome, text])

    def addSuccess(self, test):
        self.note(test, "success")

    def addError(self, test, error):
        self.note(test, "error", error)

    def addFailure(self, test, error):
        self.note(test, "failure", error)

    def addSkip(self, test, reason):
        self.note(test, "skip", (unittest.SkipTest, reason))

    def addExpectedFailure(self, test, error):
        self.note(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self.note(test, "unexpected success")

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.note(subtest, "failure", error)


def watch_methods(loop, counts):
    """Every test method runs in the loop; fixtures run plain."""

    def call(self, method):
        result, counted = loop.watch_run(method)
        for name, count in counted.items():
            counts[name] = counts.get(name, 0) + count
        return result

    unittest.TestCase._callTestMethod = call


def run_one(name, how):
    counts = {}
    if how == "watched":
        watch_methods(load_loop(), counts)
    sys.argv = [sys.argv[0]]
    import test.support

    test.support.verbose = 0
    suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{name}")
    recorder = Recorder()
    suite.run(recorder)
    return {"outcomes": recorder.outcomes, "counts": counts}


def child(name, how, timeout):
    command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), "--one", name, "--how", how]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, errors="replace", check=False)
    except subprocess.TimeoutExpired:
        return {"problem": "timeout"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("RESULT "):
            return json.loads(line[len("RESULT ") :])
    return {"problem": f"exit {done.returncode}: {(done.stdout + done.stderr)[-300:]}"}


def compare(name, timeout):
    plain, watched = child(name, "plain", timeout), child(name, "watched", timeout)
    if "problem" in plain or "problem" in watched:
        same = plain.get("problem") == watched.get("problem")
        print(
            f"{name}: {'both' if same else 'DIFFERENT'}: plain {plain.get('problem')}, watched {watched.get('problem')}"
        )
        return 0, 0 if same else 1, 0, 0
    different = 0
    for test in sorted(plain["outcomes"].keys() | watched["outcomes"].keys()):
        before, after = plain["outcomes"].get(test), watched["outcomes"].get(test)
        if before != after:
            different += 1
            print(f"  {test}\n    plain   {before}\n    watched {after}")
    counts = watched["counts"]
    entered, unseen = counts.get("enters", 0), counts.get("unseen", 0)
    total = len(plain["outcomes"])
    print(f"{name}: {total} tests, {different} different, {entered} frames, {unseen} unseen", flush=True)
    return total, different, entered, unseen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--one")
    parser.add_argument("--how", choices=["plain", "watched"], default="watched")
    parser.add_argument("--timeout", type=float, default=300)
    options = parser.parse_args()
    if options.one:
        result = run_one(options.one, options.how)
        print("\nRESULT " + json.dumps(result), flush=True)
        os._exit(0)
    sums = [sum(column) for column in zip(*(compare(name, options.timeout) for name in options.modules), strict=True)]
    print(f"all: {sums[0]} tests, {sums[1]} different, {sums[2]} frames, {sums[3]} unseen")
    sys.exit(sums[1] != 0)


if __name__ == "__main__":
    main()
