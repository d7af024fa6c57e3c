"""What a front says of a client comes out as it was meant, and nothing that a certificate says can say more."""

import pytest

from beanpole.protocol.evidence import Evidence, read_evidence


def test_all_of_it_comes_back() -> None:
    evidence = Evidence("10.0.0.7:40112", "tls", "shop", "www-data", ("CN=shop", "DNS:shop"), 1_800_000_000.0)
    assert read_evidence(evidence.text()) == evidence


def test_unknown_keys_are_passed_over() -> None:
    assert read_evidence(b"map 7\npeer unix\nway unix\ncolour red\n") == Evidence("unix", "unix")


@pytest.mark.parametrize("name", ["CN=a\nuser root", "CN=a\r\nuser root", "CN=\u2028user root", "CN=größe"])
def test_a_name_that_is_not_printable_ascii_is_none(name: str) -> None:
    assert read_evidence(Evidence(certificates=(name, "CN=shop")).text()) == Evidence(certificates=("CN=shop",))


def test_names_that_take_too_much_are_refused() -> None:
    with pytest.raises(ValueError, match="1024"):
        Evidence(certificates=tuple(f"DNS:host{each}.example" for each in range(100))).text()
