"""What a client takes, by its headers."""

import pytest

from beanpole.console.metrics.page import takes_gzip, wants_openmetrics

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (PROMETHEUS, True),
        ("application/openmetrics-text", True),
        ("Application/OpenMetrics-Text; Q=1", True),
        ("", False),
        ("*/*", False),
        ("text/html,application/xml;q=0.9,*/*;q=0.8", False),
        ("text/plain;q=0.9,application/openmetrics-text;q=0.1", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=a lot", False),
        (";;,,;q=1,", False),
    ],
)
def test_openmetrics_is_for_those_who_name_it(header: str, wanted: bool) -> None:
    assert wants_openmetrics(header) is wanted


@pytest.mark.parametrize(
    ("header", "takes"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("*", True),
        ("*, gzip;q=0", False),
        ("", False),
        ("identity, br", False),
        ("gzip;q=0.0", False),
    ],
)
def test_gzip_is_for_those_who_take_it(header: str, takes: bool) -> None:
    assert takes_gzip(header) is takes
