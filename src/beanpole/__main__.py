"""``beanpole``, and ``python -m beanpole``. A server listens before the command line is imported."""

import gc
import os
import sys


def main() -> int:
    """Run the command line; return the exit code."""
    if sys.argv[1:2] == ["serve"]:
        if sys.platform != "linux":
            sys.exit(
                "beanpole: a server runs on Linux only, or in a container: see docs/install.md, Elsewhere than on Linux"
            )
        from beanpole.server import early

        # What is imported stays, so looking for garbage in it is a tenth of the start for nothing.
        gc.disable()
        early.listen(sys.argv[2:], os.environ)
    from beanpole.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
