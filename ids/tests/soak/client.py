"""Clients: they ask for numbers, and write down each that they got, also from a reply that comes late."""

import json
import random
import socket
import threading
import time
from array import array
from collections import Counter
from collections.abc import Sequence

from tests.soak.world import BATCHES, FLAKES, Node

RULES = [*BATCHES, FLAKES]
WEIGHTS = [1 if rule == "strict" else 8 for rule in RULES]
"""A rule that reserves each number by itself is slow, and would slow all others down."""

APPS = ("shop", "Shop", "ß")
TIMEOUT_S = 0.4
ANSWERS_MAX = 1_000
"""Requests whose replies may still come again."""

LAST_REPLIES_S = 0.5
"""How long a client listens at its end: all nodes have stopped by then, and what they said is there."""

Got = dict[tuple[str, str], "array[int]"]
"""The digits of all numbers that came, by rule and application."""


class Client(threading.Thread):
    """One client; it ends when it is told to, and has then all replies that came."""

    def __init__(self, seed: int, nodes: Sequence[Node]) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.nodes = nodes
        self.got: Got = {(rule, app): array("Q") for rule in RULES for app in APPS}
        self.given_count = 0
        self.refused: Counter[str] = Counter()
        self.ending = threading.Event()
        self.failure: BaseException | None = None
        self._answers: dict[str, list[list[str]]] = {}
        self._seq = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def run(self) -> None:
        """Asks until it is told to end."""
        try:
            while not self.ending.is_set():
                self.ask_until_answered()
            self._socket.settimeout(LAST_REPLIES_S)
            while self.receive() is not None:
                pass
        except BaseException as error:  # noqa: BLE001 - the soak reports it
            self.failure = error
        finally:
            self._socket.close()

    def ask_until_answered(self) -> None:
        """Asks one node, and if it does not answer the same again, or the other."""
        self._seq += 1
        seq = self._seq
        rule, app = self.chance.choices(RULES, WEIGHTS)[0], self.chance.choice(APPS)
        request: dict[str, object] = {"action": "get", "rule_name": rule, "app_name": app, "seq": seq}
        if self.chance.random() < 0.05 and rule != "strict":
            request["count"] = self.chance.randint(1, 1_000)
        if self.chance.random() < 0.3:
            request["request_id"] = f"{self.ident}-{seq}"
        node = self.chance.choice(self.nodes)
        data = json.dumps(request).encode()
        for _ in range(3):
            self._socket.sendto(data, node.address)
            give_up_at = time.monotonic() + TIMEOUT_S
            while (left_s := give_up_at - time.monotonic()) > 0:
                self._socket.settimeout(left_s)
                if self.receive() == seq:
                    return
            if self.chance.random() < 0.5:
                node = self.chance.choice(self.nodes)

    def receive(self) -> object:
        """Takes the next reply; returns the `seq` of its request, or None if none came."""
        try:
            reply = json.loads(self._socket.recv(70_000))
        except TimeoutError:
            return None
        if reply["code"] != 0:
            assert reply["code"] in {-3, -4, -5}, reply
            self.refused[reply["message"].partition(":")[0]] += 1
            return reply["seq"]
        data = reply["data"] if isinstance(reply["data"], list) else [reply["data"]]
        name = reply.get("request_id")
        if name is not None:
            # Asked again, a node says the same; the other node, and one that was started meanwhile, say another number.
            before = self._answers.setdefault(name, [])
            if data in before:
                return reply["seq"]
            before.append(data)
            if len(self._answers) > ANSWERS_MAX:
                del self._answers[next(iter(self._answers))]
        self.got[reply["rule_name"], reply["app_name"]].extend(int(each.lstrip("CO")) for each in data)
        self.given_count += len(data)
        return reply["seq"]
