"""``beanpole-ids``, and ``python -m beanpole_ids``."""

import sys

from beanpole_ids.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
