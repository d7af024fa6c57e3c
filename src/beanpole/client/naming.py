"""What a client calls itself, so that people find its sessions on the server: where it runs, and what it is."""

import os
import socket
import sys
from pathlib import PurePath

from beanpole.protocol.limits import SESSION_NAME_BYTES_MAX


def program() -> str:
    """The name of the running program, or of the package that is run as one."""
    path = PurePath(sys.argv[0] if sys.argv else "")
    return (path.parent.name if path.name == "__main__.py" else path.name) or "python"


def own_name(what: str) -> str:
    """``host:pid``, then what runs there. The process is the one that asks now: it may be the child of another."""
    text = f"{socket.gethostname()}:{os.getpid()} {what}"
    shown = "".join(each if each.isprintable() else "?" for each in text)
    return shown.encode("utf-8", "replace")[:SESSION_NAME_BYTES_MAX].decode("utf-8", "ignore")
