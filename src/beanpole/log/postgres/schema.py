"""The tables of a cluster's log, and what is set for all of its nodes. ``beanpole cluster init`` makes them."""

from beanpole.log import limits
from beanpole.log.postgres.store import STOPPED

SCHEMA = "beanpole"
"""Everything lies in this schema; a cluster has a database of its own."""

COLUMNS = "row, epoch, kind, writer, confirmed_segment, confirmed_row, previous, hash, data"

MAKE = f"""
create schema if not exists {SCHEMA};
create table if not exists {SCHEMA}.segment (number bigint primary key);
create table if not exists {SCHEMA}.setting (name text primary key, value text not null);
create table if not exists {SCHEMA}.step_down (epoch bigint primary key, successor text not null);
create table if not exists {SCHEMA}.digest (
    question text, node text, segment bigint not null, row bigint not null, hash bytea not null, due_ns bigint not null,
    jobs bigint not null, digest bytea not null, primary key (question, node));
create table if not exists {SCHEMA}.node (
    name text primary key, address text not null, role text not null, epoch bigint not null,
    segment bigint not null, row bigint not null, version text not null, format int not null, machine text not null,
    reaches_leader boolean not null, writer bytea not null, seen timestamptz not null, wall_s float8, zones text);
"""

NODE_COLUMNS = "name, address, role, epoch, segment, row, version, format, machine, reaches_leader, writer"

FORMAT_CLOCKS = 5
"""The format of the log from which nodes say what their wall clocks and zone data are."""

FORMAT_SHARD = 9
"""The format from which a cluster may be a shard: a node that reads less gives other ids."""

CLOCK_COLUMNS = "wall_s, zones"

ADD_CLOCKS = f"""
alter table {SCHEMA}.node add column if not exists wall_s float8, add column if not exists zones text
"""


def report(log_format: int) -> str:
    """Return what says what a node does, unless another process of its name is alive; of two the newer leader stays."""
    columns = [*NODE_COLUMNS.split(", "), *(CLOCK_COLUMNS.split(", ") if log_format >= FORMAT_CLOCKS else ())]
    names = ", ".join([*columns, "seen"])
    return f"""
    insert into {SCHEMA}.node ({names}) values ({", ".join(["%s"] * len(columns))}, clock_timestamp())
    on conflict (name) do update set ({names}) = ({", ".join(f"excluded.{each}" for each in [*columns, "seen"])})
    where node.writer = excluded.writer or node.role = '{STOPPED}'
        or node.seen < clock_timestamp() - interval '{limits.REPORT_OLD_S} seconds'
        or excluded.role = 'leader' and (node.role <> 'leader' or node.epoch < excluded.epoch)
    """


def nodes(log_format: int) -> str:
    """Return what asks for what all nodes have said."""
    clocks = "wall_s, coalesce(zones, '')" if log_format >= FORMAT_CLOCKS else "null::float8, ''"
    return f"""
    select {NODE_COLUMNS}, {clocks}, extract(epoch from seen)::float8,
        extract(epoch from clock_timestamp() - seen)::float8
    from {SCHEMA}.node order by name
    """


STOP = f"update {SCHEMA}.node set role = %s where writer = %s"

ERA = f"coalesce((select value::bigint from {SCHEMA}.setting where name = 'era'), 0)"

LOSS = f"""
insert into {SCHEMA}.setting
select 'loss', %s where {ERA} <= %s and exists (select from {SCHEMA}.setting where (name, value) = ('cluster', %s))
on conflict do nothing
"""
"""Halts the cluster, unless it is another, or the loss was accepted."""

LOCK_SETTINGS = f"lock table {SCHEMA}.setting in share row exclusive mode"
"""Lets others read what is set. What changes it waits, and begins when this transaction has ended."""

UNREADABLE = "unreadable "
"""What the name of a setting begins with that says what a node can't verify; behind it stands the node's name."""

SET = f"insert into {SCHEMA}.setting values (%s, %s) on conflict (name) do update set value = excluded.value"

MAKE_KEY = f"insert into {SCHEMA}.setting values ('key', %s) on conflict do nothing"
"""Sets the key by which nodes with users know each other, unless there is one."""

USERS = "users "
"""What the name of a setting begins with that says which users and tokens a node knows; behind it stands its name."""

UNREACHED = "unreached "
"""The same of why a node does not reach the one that leads."""

SAID = f"select name, value from {SCHEMA}.setting where starts_with(name, %s) order by name"
"""What nodes say of themselves, by what the names of such settings begin with."""

COMPLAIN = SET

WITHDRAW = f"delete from {SCHEMA}.setting where name = any(%s)"

ACCEPT_LOSS = f"delete from {SCHEMA}.setting where name = 'loss' returning value"

NEXT_ERA = f"""
insert into {SCHEMA}.setting values ('era', greatest({ERA} + 1, extract(epoch from clock_timestamp())::bigint)::text)
on conflict (name) do update set value = excluded.value
"""
"""Begins an era. Its number is about the time in seconds: when the database is set back, none is used again."""

CLOSE = f"insert into {SCHEMA}.setting values ('closed', %s) on conflict (name) do update set value = excluded.value"
"""Its commit waits for the standbys, and so for all that was committed before."""

ANSWER = f"insert into {SCHEMA}.digest values (%s, %s, %s, %s, %s, %s, %s, %s) on conflict do nothing"

ANSWERS = (
    f"select node, segment, row, hash, due_ns, jobs, digest from {SCHEMA}.digest where question = %s order by node"
)

FORGET_QUESTION = f"delete from {SCHEMA}.digest where question = %s"
FORGET_NODE = f"delete from {SCHEMA}.node where name = %s"

SET_FORMAT = f"update {SCHEMA}.setting set value = %s where name = 'format'"

SHARES_MACHINE = """
select coalesce(bool_or(client_addr is null or client_addr <<= '127.0.0.0/8' or client_addr = '::1'
                        or client_addr = inet_server_addr()), false)
from pg_stat_activity where application_name = %s and backend_type = 'client backend'
"""
"""Whether a node runs on the server's machine. Sessions of other roles are not seen without pg_monitor."""

READERS = """
select activity.application_name, activity.pid, extract(epoch from clock_timestamp() - activity.xact_start)::float8
from pg_locks lock join pg_stat_activity activity using (pid)
where lock.relation = to_regclass(%s) and lock.granted and activity.pid <> pg_backend_pid()
order by activity.xact_start
"""
"""Who holds a table, and so keeps it from being dropped."""

ASK_STEP_DOWN = (
    f"insert into {SCHEMA}.step_down values (%s, %s) on conflict (epoch) do update set successor = excluded.successor"
)

FORGET_STEP_DOWN = f"delete from {SCHEMA}.step_down where epoch = %s"

ASKED = f"""
select coalesce((select successor from {SCHEMA}.step_down where epoch = %s), ''),
    coalesce((select value from {SCHEMA}.setting where name = 'loss'), '')
"""
"""To whom the leader of an epoch is asked to hand over, and why all nodes must stop; empty: neither."""


WAIT_FOR_NO_STANDBY = "set synchronous_commit = off"
"""For a session whose writes need not last."""


def is_approved(names: str) -> str:
    """Return what asks whether a commit waits for the standbys that were approved, and for the disk.

    A reload of the server's configuration changes either.
    """
    return f"current_setting('synchronous_standby_names') = {names} and current_setting('fsync') = 'on'"


def table(segment: int) -> str:
    return f"{SCHEMA}.log_{segment}"


def check_cluster(cluster: str) -> str:
    """Return what ends a transaction, as if the connection were lost, in the database of another cluster.

    Until the transaction ends nobody can drop the tables.
    """
    return f"""
    do $check$ begin
        if not exists (select from {SCHEMA}.setting where (name, value) = ('cluster', '{cluster}')) then
            raise exception 'the database has another cluster now' using errcode = 'operator_intervention';
        end if;
    end $check$;
    """


def make_segment(segment: int) -> str:
    """Return what makes a segment's table, in one transaction with its line, if it is the next one.

    That is asked here once more: a node may stand still before it sends this, until the number was used and dropped.

    Rows are compressed by LZ4 where the server has it: what is not written need not be sent to the standbys
    and synced there. Its other way would take longer than that. Nothing is ever updated or deleted in it, so there is
    nothing for autovacuum. The index finds who leads: the last such row may have a million rows behind it.
    """
    name = table(segment)
    return f"""
    do $make$ begin
        if (select coalesce(max(number), 0) from {SCHEMA}.segment) <> {segment - 1} then
            return;
        end if;
        create table if not exists {name} (
            row bigint primary key, epoch bigint not null, kind smallint not null, writer bytea not null,
            confirmed_segment bigint not null, confirmed_row bigint not null,
            previous bytea not null, hash bytea not null, data bytea not null) with (autovacuum_enabled = off);
        begin
            execute 'alter table {name} alter column data set compression lz4';
        exception when feature_not_supported or syntax_error then
            alter table {name} alter column data set storage external;
        end;
        create index if not exists log_{segment}_noted on {name} (row) where kind in (3, 6);
        insert into {SCHEMA}.segment values ({segment}) on conflict do nothing;
    end $make$;
    """


def forget_segment(segment: int) -> str:
    """Return what deletes the line of a segment without a table. While the line is there nobody makes the table."""
    return f"delete from {SCHEMA}.segment where number = {segment} and to_regclass('{table(segment)}') is null;"


def drop_segment(segment: int) -> str:
    """Return what drops a segment's table with its line."""
    return f"drop table if exists {table(segment)}; delete from {SCHEMA}.segment where number = {segment};"


def lock_segment(segment: int) -> str:
    """Return what waits until nobody uses a segment's table, and keeps everybody else out."""
    return f"lock table {table(segment)} in access exclusive mode"


def insert(segment: int) -> str:
    """Return the statement that adds a row to a log which nobody else writes to."""
    return f"insert into {table(segment)} ({COLUMNS}) values (%s, %s, %s, %s, %s, %s, %s, %s, %s)"


def append(row_segment: int, tip_segment: int) -> str:
    """Return the statement that appends a row behind the tip, if that is still there and nothing is behind it.

    The key forbids two rows at a place, the select a gap. Nothing is appended while a commit would wait for less than
    was approved.
    """
    return f"""
    insert into {table(row_segment)} ({COLUMNS})
    select $1, $2, $3, $4, $5, $6, $7, $8, $9 from {table(tip_segment)}
    where row = $10 and hash = $11 and {is_approved("$12")}
    on conflict do nothing returning 1
    """
