"""What strangers may send: datagrams and bytes of HTTP that are almost right, or not at all."""

import random

VALID = '{"action":"get","app_name":"a","rule_name":"order","seq":1}'
KEYS = ("action", "app_name", "rule_name", "salt", "count", "request_id", "seq", "code", "data", "message")
VALUES = (
    "0", "-1", "1000", "1001", "1e3", "1e999", "9" * 30, "9" * 19_000, "NaN", "null", "true", "[]", "{}", "/*", "//",
    '"', '""', '"monitor"', '"small"', '"\\u0000"', '"\\ud800"', '"' + "x" * 255 + '"', '"' + "x" * 256 + '"', "",
    "[" * 5_000, "[" * 900 + "]" * 900, '{"a":' * 3_000,
)  # fmt: skip


def datagram(chance: random.Random) -> bytes:
    """One that is almost right, or not at all."""
    kind = chance.random()
    if kind < 0.1:
        return chance.randbytes(chance.choice([0, 1, 2, 100, 20_459, 20_460, 65_000]))
    fields = "".join(f'"{chance.choice(KEYS)}":{chance.choice(VALUES)},' for _ in range(chance.randrange(4)))
    data = (VALID[:-1] + "," + fields).encode()[:-1] + b"}"
    if kind < 0.4:
        return damaged(data, chance)
    return data


METHODS = (*["GET", "POST"] * 4, "HEAD", "PUT", "OPTIONS", "", "get", "G" * 300)
PATHS = (
    *["/v1/ids/order/a", "/v1/ids/order/shop?count=3", "/v1/ids/lua/a?count=1000", "/v1/ids/flake/a"] * 3,
    "/v1/ids/strict/a", "/v1/ids/order/again?request_id=x", "/v1/ids/none/a", "/v1/ids/order/%00", "/v1/ids/order",
    "/v1/ids/order/a?count=-1", "/v1/ids/order/a?count=9999999999999999999999", "/v1/ids/order/a?salt=" + "-" * 9_000,
    "/v1/counters/order/a", "/v1/counters/order?limit=2", "/v1/counters/order?after=%ff&limit=x", "/v1/rules",
    "/v1/rules/order", "/v1/reload", "/health", "/metrics", "/docs", "/openapi.json", "/", "*", "//", "/../..", "",
    "http://127.0.0.1/health", "/" + "x" * 20_000,
)  # fmt: skip
FIELDS = (
    *["Host: 127.0.0.1"] * 6, "Host: ", "Host: evil.example", *["X-Beanpole: 1"] * 3, "Origin: http://evil.example",
    "Origin: null", "Connection: close", "Connection: keep-alive, upgrade", "Upgrade: websocket",
    "Expect: 100-continue",
    "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Content-Length: 0", "Content-Length: 5",
    "Content-Length: -1", "Content-Length: 99999999999999999999", "Content-Type: application/json",
    "Content-Type: text/plain", "X: " + "y" * 20_000, "x" * 100, ":", " folded: 1", "X:\x00", "X:\xff",
)  # fmt: skip
BODIES = (
    *[b""] * 6, b'{"count":2}', b'{"count":1e9}', b'{"salt":"' + b"-" * 9_000 + b'"}', b'{"request_id":[]}',
    b"[" * 9_000, b"5\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffff\r\n", b"hello",
)  # fmt: skip


def http_request(chance: random.Random) -> bytes:
    """Bytes of one request, of more than one, or of none; half of them are right, but for what they ask for."""
    if chance.random() < 0.5:
        method, path = chance.choice(("GET", "POST")), chance.choice(PATHS[:-4])
        return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Beanpole: 1\r\nContent-Length: 0\r\n\r\n".encode()
    lines = [f"{chance.choice(METHODS)} {chance.choice(PATHS)} HTTP/1.{chance.choice('1111110x')}"]
    lines += [chance.choice(FIELDS) for _ in range(chance.randrange(6))]
    body = chance.choice(BODIES)
    if chance.random() < 0.7:
        lines += ["Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    data = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body
    return damaged(data, chance) if chance.random() < 0.3 else data


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The beginning of some bytes, with others in some places."""
    found = bytearray(data)
    for _ in range(chance.randrange(1, 6)):
        found[chance.randrange(len(found))] = chance.randrange(256)
    return bytes(found[: chance.randrange(len(found) + 1)])
