"""Crontabs as files of schedules: each line is a table or a comment with the reason, and the file can be applied."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.schedules.crontab import convert, name_of
from beanpole.schedules.file import read

PROGRAMS = {"date", "php"}.__contains__

CRONTAB = """\
# m h dom mon dow command
MAILTO=me@example.org
30 2 * * * /usr/local/bin/backup.sh --full > /dev/null 2>&1
30 3 * * * /usr/local/bin/backup.sh

CRON_TZ=America/New_York
0 0 * * * date +\\%Y
@reboot /usr/bin/start
0 0 * * * mail -s hello%body
0 0 30 2 * never
CRON_TZ=Nowhere
foo bar
"""

CONVERTED = """\
# m h dom mon dow command
# line 2: jobs have no environment, and send no mail: that is up to whoever runs them
#   MAILTO=me@example.org
[backup]
cron = "30 2 * * *"
zone = "Europe/Berlin"
tube = "cron"
body = "/usr/local/bin/backup.sh --full > /dev/null 2>&1"

[backup-2]
cron = "30 3 * * *"
zone = "Europe/Berlin"
tube = "cron"
body = "/usr/local/bin/backup.sh"

[date]
cron = "0 0 * * *"
zone = "America/New_York"
tube = "cron"
body = "date +%Y"

# line 8: cron: '@reboot': a schedule knows nothing of starts
#   @reboot /usr/bin/start
# line 9: % is a line end to cron, and what is behind it is input: write the body as it shall be
#   0 0 * * * mail -s hello%body
# line 10: cron: there is no such day in 50 years
#   0 0 30 2 * never
# line 11: zone: there is no time zone 'Nowhere' in the data of this machine
#   CRON_TZ=Nowhere
# line 12: this is no line of a crontab: times and a command are wanted
#   foo bar
"""


def test_lines_become_tables_or_comments_with_the_reason() -> None:
    lines, refused = convert(CRONTAB, zone="Europe/Berlin", tube="cron", has_users=False, is_program=PROGRAMS)
    assert "\n".join(lines) == CONVERTED
    assert refused == 6
    assert list(read("\n".join(lines))) == ["backup", "backup-2", "date"]


@pytest.mark.parametrize(("user", "has_users"), [("root", False), ("www-data", True)])
def test_a_column_of_users_is_left_out_and_said(user: str, has_users: bool) -> None:
    text = f"17 *\t* * *\t{user}\tcd / && run-parts --report /etc/cron.hourly"
    lines, refused = convert(text, zone="UTC", tube="t", has_users=has_users, is_program=PROGRAMS)
    assert lines[0] == f"# line 1: jobs have no user; whoever runs this one must be {user}"
    assert refused == 1
    assert lines[1:4] == ["[run-parts-cron-hourly]", 'cron = "17 * * * *"', 'tube = "t"']


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        ("www-data php /srv/cron.php", True),
        ("php /srv/cron.php", False),
        ("/srv/cron.sh --all", False),
        ("cd /srv && ./cron.sh", False),
        ("LANG=C never x", False),
        ("never", False),
    ],
)
def test_a_first_word_that_is_no_program_may_be_a_user(command: str, asks: bool) -> None:
    lines, refused = convert(f"@daily {command}", zone="UTC", tube="t", has_users=False, is_program=PROGRAMS)
    assert [line for line in lines if line.startswith("#")] == asks * [
        "# line 1: is www-data a user? then import with --user-column"
    ]
    assert refused == asks
    assert lines[-2] == f'body = "{command}"'


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cd /app && RAILS_ENV=production bundle exec rake billing:run >> /var/log/x.log 2>&1", "rake-billing-run"),
        ('python3 /srv/app/manage.py send_mail "it"', "manage-send-mail"),
        ("test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }", "run-parts-cron-daily"),
        ("flock -n /tmp/lock /opt/sync.sh", "lock-sync"),
        ("!!!", ""),
    ],
)
def test_a_name_says_what_the_command_does(command: str, name: str) -> None:
    assert name_of(command) == name


LINES = st.one_of(
    st.text(),
    st.text(st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)),
    st.builds("{} {}".format, st.sampled_from(["* * * * *", "@daily", "@reboot", "0 0 30 2 *"]), st.text(min_size=1)),
    st.builds("{}={}".format, st.sampled_from(["CRON_TZ", "PATH", "TZ"]), st.sampled_from(["UTC", "Europe/Berlin"])),
)


@given(st.lists(LINES).map("\n".join), st.booleans())
def test_what_is_written_can_be_applied(text: str, has_users: bool) -> None:
    lines, _ = convert(text, zone="Europe/Berlin", tube="cron", has_users=has_users, is_program=PROGRAMS)
    read("\n".join(lines))
