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


def test_variable_is_blamed_for_its_value() -> None:
    outcome = start_in_vain(env={"BEANPOLE_PORT": "tcp://10.0.0.1:11300"}, listen=False)
    assert outcome.code == 5
    assert outcome.error.startswith("beanpole serve: Invalid value for BEANPOLE_PORT (the variable for --port): ")
    assert "BEANPOLE" not in start_in_vain("-p", "x", env={"BEANPOLE_PORT": "1"}).error


def test_unknown_variables_are_told() -> None:
    with serving(env={"BEANPOLE_PROT": "1", "BEANPOLE_DATADIR": "x", "BEANPOLE_URL": "unix:x"}) as process:
        assert process.messages.startswith(
            "beanpole serve: no such setting, ignored: BEANPOLE_DATADIR, BEANPOLE_PROT\n"
        )


def test_flags_that_need_a_data_directory_are_told(tmp_path: Path) -> None:
    with serving("-F", "-s", "100000") as process:
        assert "beanpole serve: -F, -s without -b: ignored, as no jobs are kept on disk\n" in process.messages
    with serving("-f", "50", "-b", str(tmp_path / "data")) as process:
        assert "without -b" not in process.messages
    with serving() as process:
        assert "without -b" not in process.messages
