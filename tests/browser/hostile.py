"""Texts that a page must show, and never run.

Whoever puts a job chooses them, within what the protocol allows: names of tubes have letters, digits and `-+/;.$_()`,
keys and names of sessions no control characters, bodies and reasons are any bytes.
"""

MARKUP = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg onload=alert(1)><a href='javascript:alert(1)'>",
    "</title></textarea></script><script>alert(1)</script>",
    "{{ 7919 * 104729 }}{% for x in (1,) %}${alert(1)}{% endfor %}",
    "&lt;b&gt; &amp;amp; <!-- <b> -->",
)
"""What would run or show as markup in a page that forgets to escape, or evaluates."""

EVALUATED = str(7919 * 104729)
"""What a page has then that evaluates: no port and no time has so many digits."""

BODIES = (
    *(text.encode() for text in MARKUP),
    "\u202egpj.exe\u2066 \u200b\ufeff \U0001f469\u200d\U0001f4bb e\u0301".encode(),
    b"\x00\x01\x1b[31mred\x1b[0m\r\n\x7f\x9b",
    bytes(range(256)),
    b"data: {}\n\nevent: state\ndata: <b>x</b>\n\n",
    b'{"__proto__": {"a": 1}, "a": "<script>alert(1)</script>", "a": 1e999, "b": NaN}',
    b"[" * 60_000,
    b'{"n": ' + b"9" * 10_000 + b"}",
    b"x" * 60_000,
    b"",
)
"""Bodies of jobs."""

TUBES = (
    "javascript/alert(1)",
    "a/b/../c",
    "..",
    ".",
    "/",
    "/login",
    "+$_();/.-",
    "tubes.jsonl",
    "(l" + "o" * 196 + "ng",
)
"""Names of tubes: each stands in an address, and in forms."""

KEYS = ("<script>alert(1)</script>", "\"'><img/src=x/onerror=alert(1)>", "k\u202ey")

NAMES = (
    "<script>alert(1)</script>",
    "\"' onmouseover=alert(1) x='",
    "\u202eworker\u2066",
    "w" * 200,
)
"""Names of sessions."""
