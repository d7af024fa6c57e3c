"""``beanpole import --crontab``: a file of schedules on standard output, and exit code 1 if it is not all."""

from pathlib import Path

import pytest

from beanpole.cli.main import main
from beanpole.cli.quantities import zone_of_machine
from beanpole.schedules.file import read


def test_crontab_is_written_for_review(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_bytes(b"30 2 * * * echo \xff\n")
    assert main(["import", "--crontab", str(file), "--zone", "Europe/Berlin", "jobs"]) == 0
    out, err = capsysbinary.readouterr()
    assert out.decode() == (
        '# Times are those of Europe/Berlin.\n\n[echo]\ncron = "30 2 * * *"\nzone = "Europe/Berlin"\ntube = "jobs"\n'
        'body_base64 = "ZWNobyD/"\n'
    )
    assert (read(out.decode())["echo"].body, err) == (b"echo \xff", b"")
    file.write_text("@reboot x\n@daily y\n")
    assert main(["import", "--crontab", str(file)]) == 1
    out, err = capsysbinary.readouterr()
    assert out.startswith(f"# Times are those of {zone_of_machine()}.\n\n# line 1: cron: '@reboot': ".encode())
    assert read(out.decode())["y"].tube == b"cron"
    assert err == b"beanpole: lines that need a look: 1; the comments say why\n"


def test_a_copy_of_a_crontab_of_the_system_has_a_column_of_users(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "site"
    file.write_text("*/5 * * * * no-such-user /bin/php /srv/cron.php\n")
    assert main(["import", "--crontab", str(file)]) == 1
    out = capsys.readouterr().out
    assert "\n# line 1: is no-such-user a user? then import with --user-column\n[" in out
    assert main(["import", "--crontab", str(file), "--user-column"]) == 1
    out = capsys.readouterr().out
    assert "whoever runs this one must be no-such-user\n" in out
    assert read(out)["cron"].body == b"/bin/php /srv/cron.php"


def test_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", ":Europe/Berlin")
    assert zone_of_machine() == "Europe/Berlin"
