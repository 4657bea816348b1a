"""Random programs do the same deferred as eagerly: data, geometry, versions, history, errors, the random stream."""

import pytest

from random_programs import compare

PROGRAMS, EACH = 300, 25


@pytest.mark.parametrize("first", range(0, PROGRAMS, EACH))
def test_random_programs(first: int) -> None:
    failures, recorded = [], 0
    for seed in range(first, first + EACH):
        try:
            recorded += compare(seed)["recorded"]
        except Exception as error:
            failures.append(f"seed {seed}: {type(error).__name__}: {str(error)[:500]}")
    assert not failures, "\n".join(failures)
    assert recorded > EACH
