"""``python -m beanpole``."""

import sys

from beanpole.cli.main import main

sys.exit(main())
