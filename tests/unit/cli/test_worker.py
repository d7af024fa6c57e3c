"""Where the processes of a worker serve their metrics, and the flags that ``--reload`` passes on."""

import pytest

from beanpole.cli.worker import address_of, flags_of


@pytest.mark.parametrize(
    ("given", "first", "third"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1:11383"),
        ("localhost:9000", "localhost:9000", "localhost:9002"),
        ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"),
        ("[::1]:9000", "[::1]:9000", "[::1]:9002"),
        ("[::1]:0", "[::1]:0", "[::1]:0"),
        ("unix:/run/metrics", "unix:/run/metrics", "unix:/run/metrics.3"),
    ],
)
def test_the_address_of_the_metrics_of_each_process(given: str, first: str, third: str) -> None:
    assert address_of(given, 1) == first
    assert address_of(given, 3) == third


def test_flags_are_passed_on() -> None:
    given = {"log_format": "json", "url": "unix:/a", "grace": 0.5, "concurrency": None, "verbose": True, "x": False}
    assert flags_of(given) == ["--log-format", "json", "--url", "unix:/a", "--grace", "0.5", "--verbose"]
