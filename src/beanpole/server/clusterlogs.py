"""What an operator reads of a node of a cluster: what happens, what follows from it, and what to do."""

from beanpole.log.postgres.connection import advice_for
from beanpole.server.logs import Logger
from beanpole.server.observer import Reporter

CLUSTER_REPORT_NS = 10_000_000_000  # how long a log line about a cluster that stands still keeps others like it away


class ClusterObserver(Reporter):
    """Reports to an operator what happens to a node: a :class:`beanpole.log.postgres.observer.Observer`."""

    def __init__(self, logger: Logger) -> None:
        super().__init__(logger)
        self.said_unreachable = False

    def may_repeat(self, what: str) -> bool:
        """Whether a line that is said again and again is due again."""
        return self.is_due(what, CLUSTER_REPORT_NS)

    def leader_known(self, note: dict[str, str], epoch: int) -> None:
        self.logger.info("leader known", leader=note.get("node"), address=note.get("address"), epoch=epoch)

    def leads(self, epoch: int, jobs: int, seconds: float) -> None:
        self.logger.info("leading", epoch=epoch, jobs=jobs, followed_seconds=round(seconds, 3))

    def name_taken(self, name: str) -> None:
        if self.may_repeat("name taken"):
            self.logger.error("another live process has this node's name", node=name, advice="give each its own --node")

    def not_shown(self, reason: str) -> None:
        self.logger.error(
            "this node is not shown",
            reason=reason,
            effect="the log goes on; `beanpole cluster` takes this node for gone, and it knows nobody to hand over to",
            advice="let the role of the nodes select, insert, update and delete in the table beanpole.node",
        )

    def goes_on(self, reason: str) -> None:
        if self.may_repeat("goes on"):
            self.logger.warning("not handing over", reason=reason, advice="`beanpole cluster status` shows the nodes")

    def inbox_rests(self, reason: str) -> None:
        if self.may_repeat("inbox"):
            self.logger.error(
                "nothing is taken out of the inbox",
                reason=reason,
                effect="jobs that transactions have put wait there; all else goes on",
                advice="mend what the reason says; `beanpole cluster init URL --inbox` makes a lost table again",
            )

    def cut_off(self) -> None:
        if self.may_repeat("cut off"):
            self.logger.error(
                "no other node reaches this one",
                reason="another handed over to it less than a minute ago, so it leads on",
                effect="clients of the others are closed",
                advice="see that the nodes reach each other's addresses, and that each --advertise is right",
            )

    def deposed(self, reason: str) -> None:
        self.logger.warning("deposed", reason=reason, effect="its clients are closed; it follows")

    def rewound(self, count: int) -> None:
        self.logger.warning(
            "log set back", rows=count, reason="PostgreSQL lost what it had not confirmed", effect="none was answered"
        )

    def unreachable(self, reason: str) -> None:
        if self.may_repeat("unreachable"):
            self.said_unreachable = True
            self.logger.warning(
                "PostgreSQL is not reached",
                reason=reason,
                effect="this node can't lead, and learns of no new leader",
                advice=advice_for(reason),
            )

    def reachable(self) -> None:
        if self.said_unreachable:
            self.said_unreachable = False
            self.logger.info("PostgreSQL is reached again")

    def starts_over(self, reason: str) -> None:
        if self.may_repeat("starts over"):
            self.logger.warning("reading the log from its beginning", reason=reason)

    def unreadable(self, reason: str, *, waits: bool) -> None:
        if waits:
            self.logger.error(
                "log is not readable",
                reason=reason,
                effect="this node waits until the node that leads has written its segment again",
                advice="`beanpole cluster status` shows how far that is",
            )
        else:
            self.logger.warning("log is not readable", reason=reason, effect="this node reads it again")

    def repairs(self, segment: int, node: str, reason: str) -> None:
        self.logger.error(
            "repairing the log",
            segment=segment,
            reason=reason,
            told_by=node,
            effect="all jobs up to this segment are written again from memory; clients are served",
            advice="look at PostgreSQL's disk, and at who may change its tables",
        )

    def repaired(self, segment: int) -> None:
        self.logger.info("log repaired", segment=segment)

    def contradicted(self, node: str, reason: str) -> None:
        if self.may_repeat(f"contradicted {node}"):
            self.logger.error(
                "another node can't read what this one can",
                node=node,
                reason=reason,
                effect="none here; that node reads it once more, and stops if it can't",
                advice="look at the memory of that machine",
            )

    def stalled(self, reason: str, seconds: float) -> None:
        if self.may_repeat("stalled"):
            self.logger.error(
                "nothing is confirmed",
                reason=reason,
                seconds=round(seconds, 1),
                effect="no reply leaves that depends on a record",
                advice="`beanpole cluster status` says what PostgreSQL lacks: a primary, its standby, or fsync",
            )

    def stall_ended(self, seconds: float) -> None:
        """Rows are confirmed again."""
        self.quiet_until_ns.pop("stalled", None)
        self.logger.info("confirmed again", seconds=round(seconds, 3))

    def clients_sent_away(self, reason: str, seconds: float) -> None:
        """Clients were closed, and those that come are, so that they find a better node."""
        self.logger.error(
            "clients sent away",
            reason=reason,
            seconds=round(seconds, 1),
            effect="none is taken until it goes on",
            advice="`beanpole cluster status` shows who leads, and what is missing",
        )

    def leader_unreachable(self, address: str, reason: str, seconds: float) -> None:
        """The leader's address can't be connected to."""
        if self.may_repeat("leader"):
            self.logger.warning(
                "leader is not reached",
                address=address,
                reason=reason,
                seconds=round(seconds, 1),
                effect="clients of this node wait",
                advice="see that this machine reaches the address, and that --advertise of the leading node is right",
            )
