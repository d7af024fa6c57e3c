"""`beanpole serve` to its operator: what a mistake is blamed on, what is told, and what is left behind."""

from pathlib import Path

from tests.e2e.process import serving, start_in_vain
from tests.servers import HOST


def test_address_is_named_once() -> None:
    with serving() as process:
        taken = f"{HOST}:{process.port}"
        wanted = f"beanpole: cannot listen on {taken}: Address already in use\n"
        assert start_in_vain("-l", taken, listen=False).error == wanted
        assert start_in_vain("-l", HOST, "-p", str(process.port), listen=False).error == wanted
    assert start_in_vain("-l", "[2001:db8::1]").error.startswith("beanpole: cannot listen on [2001:db8::1]:0: ")


def test_ready_file_is_there_only_while_clients_are_answered(tmp_path: Path) -> None:
    with serving() as process:
        file = process.ready_file
        assert start_in_vain("-p", str(process.port), "--ready-file", str(file)).code == 111
        assert file.exists(), "a server that can't start has removed the file of one that runs"
        process.stop()
        assert process.popen.returncode == 0
        assert not file.exists()
    with serving() as process:
        process.ready_file.write_text("tcp:another server\n")
        process.stop()
        assert process.ready_file.read_text() == "tcp:another server\n"
    stale = tmp_path / "ready"
    stale.write_text("tcp:of a server that was killed\n")
    assert start_in_vain("--ready-file", str(stale), "-u", "nobody-of-that-name").code == 33
    assert not stale.exists()
