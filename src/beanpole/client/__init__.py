"""The client: for any server that speaks the beanstalkd protocol.

Read bottom-up: ``protocol.wire`` (bytes), `commands` (the table of commands: what is sent, and what the answer means),
`session` (the used tube and the watch list, which outlive a connection, and what its server has), `extended` (the
commands that beanstalkd does not know), `plan` (what takes several round trips), `fallback` (what is done without
them), `batch` (many commands a round trip), `about` (what an error says), `recovery` (what is done when a connection is
lost), `login` (how a client shows who it is, and whom it believes), `base` (the options, and how a client connects,
runs plans and tries again), then the two skins `sync`, with `tls` below it, and `aio`, which only move bytes and wait.
`pipeline` and `pool` build on them.
"""

from beanpole.address import Address
from beanpole.client.aio import AsyncClient
from beanpole.client.codec import BytesCodec, Codec, JsonCodec, TextCodec
from beanpole.client.explanation import Explanation, Reason
from beanpole.client.extended import JobField, Page
from beanpole.client.job import FailedAttempt, Job, JobInfo
from beanpole.client.login import Login
from beanpole.client.plan import Result
from beanpole.client.pool import AsyncPool, Pool
from beanpole.client.putting import Inserted
from beanpole.client.recovery import Backoff
from beanpole.client.rights import Rights
from beanpole.client.ruling import Rules
from beanpole.client.scheduling import Schedule
from beanpole.client.stats import (
    FailureCounts,
    FailureGroup,
    GroupStats,
    Histogram,
    Histograms,
    SessionInfo,
    Stats,
    StatsJob,
    StatsTube,
)
from beanpole.client.sync import Client

__all__ = [
    "Address",
    "AsyncClient",
    "AsyncPool",
    "Backoff",
    "BytesCodec",
    "Client",
    "Codec",
    "Explanation",
    "FailedAttempt",
    "FailureCounts",
    "FailureGroup",
    "GroupStats",
    "Histogram",
    "Histograms",
    "Inserted",
    "Job",
    "JobField",
    "JobInfo",
    "JsonCodec",
    "Login",
    "Page",
    "Pool",
    "Reason",
    "Result",
    "Rights",
    "Rules",
    "Schedule",
    "SessionInfo",
    "Stats",
    "StatsJob",
    "StatsTube",
    "TextCodec",
]
