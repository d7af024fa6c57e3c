"""``python -m tests.behind_router PORT FLAGS``: a server with these flags, and a router at that port, as one program.

SIGUSR1 is the server's.
"""

import signal
import sys

from tests.servers import routed_server


def main(port: int, *flags: str) -> None:
    """Run both until SIGTERM."""
    with routed_server(*flags, port=port) as server:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGUSR1))  # only now: others inherit that
        while signal.sigwait((signal.SIGTERM, signal.SIGUSR1)) == signal.SIGUSR1:
            server.signal(signal.SIGUSR1)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
