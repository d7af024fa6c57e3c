"""The rules of tubes as text: what is read is written back, and what is wrong is refused with its line."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.errors import RulesError
from beanpole.protocol.rules import Rate, Rules, parse

SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("line", "rules", "written"),
    [
        ("attempts: 5", Rules(attempts=5), None),
        ("attempts:5", Rules(attempts=5), "attempts: 5"),
        ("dead: a-b_c.d;e/f+g$(h)", Rules(dead=b"a-b_c.d;e/f+g$(h)"), None),
        ("backoff: 1", Rules(backoff_ns=SECOND_NS), None),
        (
            "backoff: 0.250 max 10.5 factor 1.5",
            Rules(backoff_ns=250_000_000, backoff_factor_1000=1500, backoff_max_ns=10_500_000_000),
            "backoff: 0.25 factor 1.5 max 10.5",
        ),
        ("backoff: 5 factor 2 max 3600", Rules(backoff_ns=5 * SECOND_NS), "backoff: 5"),
        ("expire: 4294967295.999", Rules(expire_ns=4_294_967_295_999_000_000), None),
        ("expire: 60 dead", Rules(expire_ns=60 * SECOND_NS, expire_dead=True), None),
        ("unique: body", Rules(unique=True), None),
        ("unique: body until reserve", Rules(unique=True, unique_until_reserve=True), None),
        ("unique: body replace", Rules(unique=True, unique_replace=True), None),
        (
            "unique:  body until  reserve replace ",
            Rules(unique=True, unique_until_reserve=True, unique_replace=True),
            "unique: body until reserve replace",
        ),
        ("jobs-max: 1", Rules(jobs_max=1), None),
        ("bytes-max: 4611686018427387904", Rules(bytes_max=2**62), None),
        ("rate: 10/s", Rules(rate=Rate(10, b"s", 10)), "rate: 10/s burst 10"),
        ("rate: 61/m", Rules(rate=Rate(61, b"m", 2)), "rate: 61/m burst 2"),
        ("rate: 5/h burst 3", Rules(rate=Rate(5, b"h", 3)), None),
        ("rate: 1000000/s burst 1000000", Rules(rate=Rate(1_000_000, b"s", 1_000_000)), None),
        ("concurrency: 4294967295", Rules(concurrency=2**32 - 1), None),
        *[
            (
                f"attempts: 5\nbreaker: {given}",
                Rules(
                    attempts=5,
                    breaker_percent=50,
                    breaker_count=20,
                    breaker_window_ns=60 * SECOND_NS,
                    breaker_probe_ns=probe_s * SECOND_NS,
                ),
                f"attempts: 5\nbreaker: {written}",
            )
            for given, written, probe_s in [
                ("50% of 20 in 60s", "50% of 20 in 60s", 30),
                ("50%  in 60 of 20 probe 30", "50% of 20 in 60s", 30),
                ("050% probe 86400s of 20 in 60s", "50% of 20 in 60s probe 86400s", 86_400),
            ]
        ],
    ],
)
def test_rule(line: str, rules: Rules, written: str | None) -> None:
    assert parse(line.encode()) == rules
    assert rules.text.decode() == (written or line) + "\n"
    assert parse(rules.text) == rules


@pytest.mark.parametrize(
    "line",
    [
        *("attempts", "attempts:", "attempts: ", ": 5", "attempts 5", "Attempts: 5", "attempts: 5 6", "\xff: 1"),
        *("attempts: 0", "attempts: -1", "attempts: +1", "attempts: 1.5", "attempts: 4294967296", "attempts: \u0665"),
        *("dead: -t", "dead: a b", "dead: t*", "dead: " + "x" * 201, "dead: t\x00"),
        *("backoff: 0", "backoff: 0.0001", "backoff: .5", "backoff: 5.", "backoff: 4294967296", "backoff: 1e3"),
        *("backoff: 5 2", "backoff: 5 factor", "backoff: 5 factor 0.5", "backoff: 5 max 0", "backoff: 5 factor 1001"),
        *("backoff: 5 max 1 max 2", "backoff: factor 2", "backoff: 5 factor 2 10"),
        *("expire: 5 Dead", "expire: dead", "expire: 5 dead dead", "expire: 0"),
        *("unique: key", "unique: body until", "unique: body until delete", "unique: body replace until reserve"),
        *("jobs-max: 0", "bytes-max: 4611686018427387905", "bytes-max: 1k"),
        *("rate: 0/s", "rate: 10", "rate: 10/d", "rate: 10 /s", "rate: 1000001/s", "rate: 5/s burst 0"),
        *("rate: 5/s burst 1000001", "rate: 5/s burst", "rate: 1.5/s", "rate: 5/s 3"),
        *("concurrency: 0", "nothing: 1"),
        *("breaker: 0% of 2 in 9s", "breaker: 101% of 2 in 9s", "breaker: 50 of 2 in 9s", "breaker: % of 2 in 9s"),
        *("breaker: 50%", "breaker: 50% of 2", "breaker: 50% in 9s", "breaker: 50% of 2 in 9s probe"),
        *("breaker: 50% of 0 in 9s", "breaker: 50% of 1000001 in 9s", "breaker: 50% of 2 in 0s"),
        *("breaker: 50% of 2 in 86401s", "breaker: 50% of 2 in 1.5s", "breaker: 50% of 2 in 9m"),
        *("breaker: 50% of 2 in 9s probe 0s", "breaker: 50% of 2 in 9s in 9s"),
        *("breaker: by group", "breaker: 50% of 2 in 9s by", "breaker: 50% by group of 2 in 9s"),
    ],
)
def test_wrong_line(line: str) -> None:
    with pytest.raises(RulesError) as caught:
        parse(b"attempts: 1\r\n\n" + line.encode("utf-8" if "\u0665" in line else "latin-1"))
    assert caught.value.line == 3
    assert caught.value.why.isascii()


def test_rule_that_is_there_twice() -> None:
    with pytest.raises(RulesError, match="line 2: attempts is there twice"):
        parse(b"attempts: 1\nattempts: 1\n")


def test_a_breaker_alone_says_what_it_needs() -> None:
    with pytest.raises(RulesError, match="line 2: breaker: attempts or backoff is wanted besides"):
        parse(b"concurrency: 1\nbreaker: 50% of 2 in 9s\njobs-max: 5\n")
    assert parse(b"breaker: 50% of 2 in 9s\nbackoff: 1\n").breaker_percent == 50


def test_too_many_bytes() -> None:
    assert parse(b"\n" * 4096) == Rules()
    with pytest.raises(RulesError) as caught:
        parse(b"\n" * 4097)
    assert caught.value.line == 0


@pytest.mark.parametrize(
    ("rate", "interval_ns"), [(Rate(3, b"s", 3), 333_333_334), (Rate(1, b"h", 1), 3600 * SECOND_NS)]
)
def test_tokens_never_come_too_fast(rate: Rate, interval_ns: int) -> None:
    assert rate.interval_ns == interval_ns


rules = st.builds(
    Rules,
    attempts=st.integers(0, 2**32 - 1),
    dead=st.sampled_from([None, b"t"]),
    backoff_ns=st.integers(1, 2**32 - 1).map(lambda ms: ms * 1_000_000),
    backoff_factor_1000=st.integers(1000, 1_000_000),
    backoff_max_ns=st.integers(1, 2**32 - 1).map(lambda ms: ms * 1_000_000),
    expire_ns=st.integers(1, 2**32 - 1).map(lambda ms: ms * 1_000_000),
    expire_dead=st.booleans(),
    unique=st.just(True),
    unique_until_reserve=st.booleans(),
    unique_replace=st.booleans(),
    jobs_max=st.integers(0, 2**32 - 1),
    bytes_max=st.integers(0, 2**62),
    rate=st.builds(Rate, st.integers(1, 1_000_000), st.sampled_from([b"s", b"m", b"h"]), st.integers(1, 1_000_000)),
    concurrency=st.integers(0, 2**32 - 1),
    breaker_percent=st.integers(1, 100),
    breaker_count=st.integers(1, 1_000_000),
    breaker_window_ns=st.integers(1, 86_400).map(lambda s: s * SECOND_NS),
    breaker_probe_ns=st.integers(1, 86_400).map(lambda s: s * SECOND_NS),
    breaker_by_group=st.booleans(),
)


@given(rules)
def test_what_is_written_is_read_back(rules: Rules) -> None:
    assert parse(rules.text) == rules


@given(st.binary(max_size=60))
def test_nothing_else_is_raised(text: bytes) -> None:
    with contextlib.suppress(RulesError):
        found = parse(text)
        assert parse(found.text) == found
