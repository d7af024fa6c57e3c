"""Machines on one: network namespaces, and a router between them that drops what it is asked to drop.

Whoever makes a network must be in a namespace of network and of mounts that is its own (:func:`alone`): when its
processes have ended, the kernel removes everything. The process itself is the machine of the clients.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from examples.cluster.cluster import MEMBERS, NODES, Machines
from tests.soak.cluster.nodes import NodeProcess

CLIENTS = "clients"
ROUTER = "router"
GATEWAY = "10.77.0.254"
HOSTS = {name: f"10.77.0.{number}" for number, name in enumerate((CLIENTS, "etcd", *MEMBERS, *NODES), 1)}
NAMES = Path("/run/netns")
"""Where ip(8) keeps the namespaces' names."""

IS_ALONE = "SOAK_ALONE"


def alone(module: str) -> None:
    """Begin the program again, in namespaces of its own."""
    if IS_ALONE not in os.environ:
        command = ["unshare", "--net", "--mount", sys.executable, "-m", module, *sys.argv[1:]]
        os.execvpe(command[0], command, {**os.environ, IS_ALONE: "1"})  # noqa: S606
    NAMES.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "names", str(NAMES)], check=True)


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)


class Network:
    """A router, and a machine at each of its links."""

    def __init__(self, hosts: Mapping[str, str]) -> None:
        self.hosts = hosts
        self.rules: list[str] = []
        ip(f"netns add {ROUTER}")
        subprocess.run([*within(ROUTER).split(), "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
        ip("link set lo up")
        for name, host in hosts.items():
            there = ""
            if name != CLIENTS:
                ip(f"netns add {name}")
                there = f"-n {name}"
                ip(f"{there} link set lo up")
            ip(f"{there} link add eth0 type veth peer name {name} netns {ROUTER}")
            ip(f"{there} addr add {host}/32 dev eth0")
            ip(f"{there} link set eth0 up")
            ip(f"-n {ROUTER} addr add {GATEWAY}/32 dev {name}")
            ip(f"-n {ROUTER} link set dev {name} up")
            ip(f"-n {ROUTER} route add {host}/32 dev {name}")
            ip(f"{there} route add default via {GATEWAY} dev eth0 onlink")

    def drop(self, senders: Iterable[str], receivers: Iterable[str]) -> None:
        """Drop what some machines send to others from here on, in silence."""
        receivers = list(receivers)
        for sender in senders:
            for receiver in receivers:
                rule = f"from {self.hosts[sender]} to {self.hosts[receiver]} blackhole"
                ip(f"-n {ROUTER} rule add {rule}")
                self.rules.append(rule)

    def heal(self) -> None:
        """Pass everything on again."""
        for rule in self.rules:
            ip(f"-n {ROUTER} rule del {rule}")
        self.rules.clear()


def within(name: str) -> str:
    """Return what runs a command on a machine, in its own place."""
    return "" if name == CLIENTS else f"nsenter --net={NAMES / name}"


class ApartMachines(Machines):
    """The servers of the example, each on its own machine."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, HOSTS, "10.77.0.0/24")

    def start(self, name: str, *command: str, as_owner: bool = False, cwd: Path | None = None) -> None:
        """Start a process on the machine of its name."""
        owner = f" -S {self.user['user']} -G {self.user['group']}" if as_owner else ""
        super().start(name, *(within(name) + owner).split(), *command, cwd=cwd)


def apart_node(folder: Path, url: str, name: str) -> NodeProcess:
    """Return a node on its own machine."""
    return NodeProcess(folder, url, name, host=HOSTS[name], within=within(name))
