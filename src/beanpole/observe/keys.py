"""What a terminal sends when a key is pressed, as names of keys."""

import re

NAMES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": "control-c",
    "\x0c": "control-l",
    "\x1a": "control-z",
}
"""As xterm and all that came after it send them. The arrows also come with an O for the bracket."""

KEY = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1bO[A-Z]|.", re.DOTALL)


def keys(data: bytes) -> list[str]:
    """The keys of what was read at once: their names, or the character. What is neither is left out."""
    found = []
    for text in KEY.findall(data.decode("utf-8", "ignore")):
        name = NAMES.get(text.replace("\x1bO", "\x1b[") if len(text) == 3 else text)
        if name or (len(text) == 1 and text.isprintable()):
            found.append(name or text)
    return found
