"""The inbox of a cluster: a table and a function by which an application puts jobs in its own transaction.

Callers may only run the function. It runs as its owner, with a path on which nothing of a caller's stands before ours:
an empty one would let `pg_temp` come first (PostgreSQL's documentation, "Writing SECURITY DEFINER Functions Safely").
"""

from beanpole.log.postgres.schema import SCHEMA

TABLE = f"{SCHEMA}.inbox"

ARGUMENTS = "text, bytea, bigint, double precision, bigint, text, text, double precision, timestamptz"

MAKE = f"""
create table if not exists {TABLE} (
    number bigint generated always as identity primary key, nonce uuid not null default gen_random_uuid(),
    put_at timestamptz not null default clock_timestamp(), due timestamptz, expire float8, tube text not null,
    options text not null, body bytea not null)
    with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000);
do $do$ begin
    -- Each put that is not committed would hold that up, and it all others.
    if (select attstorage <> 'e' from pg_attribute where (attrelid, attname) = ('{TABLE}'::regclass, 'body')) then
        alter table {TABLE} alter column body set storage external;
    end if;
end $do$;
create or replace function {SCHEMA}.put(
    tube text, body bytea, pri bigint default 65536, delay double precision default 0, ttr bigint default 60,
    key text default null, "group" text default null, expire double precision default null,
    at timestamptz default null)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $put$
#variable_conflict use_variable
declare
    number_max constant bigint := 4294967295;
    word constant text := '^[^\\u0001-\\u0020\\u007f]+$';
    setting jsonb := (select jsonb_object_agg(name, value) from {SCHEMA}.setting);
    bytes_max bigint := (setting ->> 'inbox_bytes')::bigint;
    wrong text;
    put_at timestamptz := clock_timestamp();
    given bigint;
begin
    wrong := case
        when tube is null or body is null then 'tube and body must not be null'
        when tube !~ '^[A-Za-z0-9+/;.$_()][-A-Za-z0-9+/;.$_()]{{0,199}}$'
            then 'a tube is named by 1 to 200 of the characters A-Z a-z 0-9 - + / ; . $ _ ( ), and no - comes first'
        when octet_length(body) > (setting ->> 'body_bytes_max')::bigint
            then format('the body has %s bytes, and may have %s', octet_length(body), setting ->> 'body_bytes_max')
        when pri is null or pri not between 0 and number_max then 'pri must be 0 to 4294967295'
        when ttr is null or ttr not between 0 and number_max then 'ttr must be 0 to 4294967295 seconds'
        when delay is null or delay not between 0 and number_max then 'delay must be 0 to 4294967295 seconds'
        when at is not null and delay <> 0 then 'only one of delay and at can be given'
        when not isfinite(at) or extract(epoch from at - put_at) > number_max
            then 'at must be a time within 4294967295 seconds from now'
        when key !~ word or octet_length(convert_to(key, 'UTF8')) not between 1 and 200
            then 'a key has 1 to 200 bytes, none of them a space or a control character'
        when "group" !~ word or octet_length(convert_to("group", 'UTF8')) not between 1 and 200
            then 'a group has 1 to 200 bytes, none of them a space or a control character'
        when expire not between 0 and number_max then 'expire must be 0 to 4294967295 seconds'
    end;
    if wrong is not null then
        raise exception 'beanpole.put: %', wrong using errcode = 'invalid_parameter_value';
    end if;
    if setting ? 'closed' then
        raise exception 'beanpole.put: the jobs of this cluster were exported; make another, and put there'
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    if pg_total_relation_size('{TABLE}') > bytes_max then
        raise exception 'beanpole.put: the inbox has more than % bytes: does a node of the cluster lead?', bytes_max
            using errcode = 'configuration_limit_exceeded', hint = 'beanpole cluster status says why it is not emptied';
    end if;
    insert into {TABLE} (put_at, due, expire, tube, options, body) values (
        put_at,
        case when delay > 0 then put_at + make_interval(secs => delay) when at > put_at then at end,
        nullif(expire, 0), tube,
        format(' pri=%s ttr=%s', pri, ttr) || coalesce(' key=' || key, '') || coalesce(' group=' || "group", ''), body)
    returning number into given;
    return given;
end $put$;
revoke all on table {TABLE} from public;
revoke all on function {SCHEMA}.put({ARGUMENTS}) from public;
"""

OBSTACLE = f"""
select case
    when inbox is null
        then (select 'the table {TABLE} is gone' from {SCHEMA}.setting where name = 'inbox_bytes')
    when not (has_table_privilege(inbox, 'select') and has_table_privilege(inbox, 'update') and
        has_table_privilege(inbox, 'delete')) then 'this role may not select, update and delete in {TABLE}'
    when exists (select from pg_trigger where tgrelid = inbox and tgtype & 8 <> 0 and tgenabled <> 'D') or
        exists (select from pg_rewrite where ev_class = inbox and ev_type = '4') or row_security_active(inbox)
        then 'a trigger, a rule, a foreign key or row security may keep rows of {TABLE} from being deleted'
    else '' end
from (select to_regclass('{TABLE}')::oid inbox) _
"""
"""Why the rows of the inbox can't be taken; empty: they can; null: nobody made an inbox.

Whatever is in the way of deletes is found before they are tried: a leader whose append fails for it leads no more, and
the next one would fare no better.
"""

READ = f"""
with nothing as (delete from {TABLE} where false),
free as materialized (
    select number from {TABLE}
    where number = any(array(select number from {TABLE} where number > %s order by number limit %s)) and xmax <> 0
    for update skip locked)
select number, nonce::text, tube, options, body,
    extract(epoch from due - clock_timestamp())::float8,
    expire + least(extract(epoch from greatest(put_at, due) - clock_timestamp()), 0)::float8,
    extract(epoch from clock_timestamp() - put_at)::float8
from (select *, sum(octet_length(body)) over (order by number) - octet_length(body) as before
    from {TABLE} where number > %s and (xmax = 0 or number in (select number from free))
    order by number limit %s) _
where before < %s order by number
"""
"""Rows that somebody else has locked or deleted in a transaction that is open stay: the log would wait for its end.

A row that nobody ever locked has an `xmax` of 0. The numbers are an array, or PostgreSQL could look for them once per
row: after an append that failed, or somebody's lock, a look would take seconds. The `delete` of nothing waits where a
lock on the table would let no row be taken.
"""

STATE = f"""
select count(*), coalesce(extract(epoch from clock_timestamp() - min(put_at)), 0)::float8,
    pg_total_relation_size('{TABLE}')
from {TABLE}
"""

HAS_ROWS = f"select exists (select from {TABLE})"


def taking(append: str) -> str:
    """Return the statement that appends a row, and takes the rows of the inbox away that are in it; else it fails.

    What is deleted in a `with` is gone whatever becomes of the insert: so that dividing by its count undoes both.
    """
    inserts, _, rest = append.partition(" on conflict")
    return f"""
    with taken as (
        delete from {TABLE} where number = any($13::bigint[])
        and (number, nonce) in (select * from unnest($13::bigint[], $14::uuid[])) returning 1),
    put as ({inserts} and (select count(*) from taken) = cardinality($13::bigint[]) on conflict{rest})
    select 1 / count(*) from put
    """
