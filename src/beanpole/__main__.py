"""``beanpole``, and ``python -m beanpole``. A server listens before the command line is imported, if that is at all."""

import gc
import os
import sys

TYPE_CHECKING = False  # as in __init__.py
if TYPE_CHECKING:
    from typing import Any


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
        given = early.read(sys.argv[2:])
        early.listen(given, os.environ)
        settings = early.settings(given, os.environ)
        if settings is not None:
            return serve(settings)
    from beanpole.cli.main import main as run

    return run()


def serve(given: "dict[str, Any]") -> int:
    """Run a server whose settings were read without click; return the exit code."""
    from beanpole.errors import StartError
    from beanpole.server import app
    from beanpole.server.settings import Settings

    try:
        return int(app.serve(Settings(**given)))
    except StartError as error:
        from beanpole.cli.main import say_why

        return say_why(error)
    except KeyboardInterrupt:
        return 128 + 2


if __name__ == "__main__":
    sys.exit(main())
