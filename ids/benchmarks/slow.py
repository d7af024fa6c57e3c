"""Runs `beanpole-ids` with commits that take some milliseconds more: `python slow.py MILLISECONDS serve ...`."""

import sys
import time

import sqlalchemy as sa

from beanpole_ids.cli.main import main

if __name__ == "__main__":
    delay_s = int(sys.argv[1]) / 1000
    sa.event.listen(sa.Engine, "commit", lambda _: time.sleep(delay_s))
    sys.exit(main(sys.argv[2:]))
