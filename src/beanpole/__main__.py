"""``beanpole``, and ``python -m beanpole``. A server listens before the command line is imported."""

import os
import sys


def main() -> int:
    """Run the command line; return the exit code."""
    if sys.argv[1:2] == ["serve"]:
        from beanpole.server import early

        early.listen(sys.argv[2:], os.environ)
    from beanpole.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
