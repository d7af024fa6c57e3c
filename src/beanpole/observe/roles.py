"""The role of a server in its cluster, as its statistics say it."""

from beanpole.client import Stats


def role_of(stats: Stats) -> str:
    """The role of a server in its cluster; empty: it is in none."""
    return str(stats.get("cluster-role", ""))


def has_jobs(stats: Stats) -> bool:
    """Whether the server has the jobs: it is in no cluster, or leads it."""
    return role_of(stats) in {"", "leader"}
