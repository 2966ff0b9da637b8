/*
 * The tables. `owner` is the user; times are milliseconds, 0: none. Rows of `jobs` are short,
 * because they change often: what is long stands in tables of its own.
 *
 * A scheduled job is `ready` when nothing but a worker is missing: no time (later_at, backoff_ms)
 * and no job (waits_for) that it waits for. The lease query reads the index of these only.
 *
 * Many indexes are partial: they hold the few rows that somebody waits for, and the jobs that have
 * ended, which are nearly all, cost them nothing.
 */
#include "store.h"
#include "banned.h"

const struct migration MIGRATIONS[] = {
    {1, "CREATE TABLE jobs (id TEXT PRIMARY KEY, owner TEXT NOT NULL, kind TEXT NOT NULL,"
        " live BIGINT NOT NULL, state TEXT NOT NULL, title TEXT NOT NULL, labels TEXT,"
        " priority BIGINT NOT NULL, created_at BIGINT NOT NULL, not_before BIGINT NOT NULL,"
        " started_at BIGINT NOT NULL DEFAULT 0, finished_at BIGINT NOT NULL DEFAULT 0,"
        " remove_at BIGINT NOT NULL DEFAULT 0, keep_ms BIGINT NOT NULL," /* -1: the server's */
        " timeout_ms BIGINT NOT NULL, ttl_ms BIGINT NOT NULL,"
        " ready BIGINT NOT NULL, waits_for BIGINT NOT NULL, backoff_ms BIGINT NOT NULL DEFAULT 0,"
        " later_at BIGINT NOT NULL," /* not_before, while only that is missing */
        " attempt BIGINT NOT NULL, max_attempts BIGINT NOT NULL,"
        " failures BIGINT NOT NULL DEFAULT 0,"    /* attempts in a row that were lost */
        " ended_token BIGINT NOT NULL DEFAULT 0," /* of the last /finish */
        " ending TEXT,"                           /* why a running job is to end */
        " worker TEXT, exit_reason TEXT, error TEXT, cost DOUBLE PRECISION,"
        " steps_total BIGINT NOT NULL, steps_done BIGINT NOT NULL DEFAULT 0,"
        " last_event BIGINT NOT NULL DEFAULT 0,"     /* its number */
        " attempt_events BIGINT NOT NULL DEFAULT 0," /* how many this attempt sent */
        " stored_bytes BIGINT NOT NULL DEFAULT 0,"
        " text_bytes BIGINT NOT NULL DEFAULT 0," /* of these: events and results */
        " after_ids TEXT, memory_from TEXT, workspace_job TEXT, workspace_upload TEXT,"
        " checkpoint TEXT, idempotency TEXT, spec_hash TEXT NOT NULL)"},
    {1, "CREATE INDEX jobs_ready ON jobs (live, owner, priority DESC, id) WHERE ready = 1"},
    {1, "CREATE INDEX jobs_running ON jobs (owner, live) WHERE state = 'running'"},
    {1, "CREATE INDEX jobs_live ON jobs (owner, state) WHERE live = 1"},
    {1, "CREATE INDEX jobs_later ON jobs (later_at) WHERE later_at > 0"},
    {1, "CREATE INDEX jobs_owner ON jobs (owner, id)"},
    {1, "CREATE INDEX jobs_state ON jobs (state, id)"},
    {1, "CREATE INDEX jobs_finished ON jobs (finished_at) WHERE finished_at > 0 AND keep_ms < 0"},
    {1, "CREATE INDEX jobs_remove ON jobs (remove_at) WHERE remove_at > 0"},
    {1, "CREATE UNIQUE INDEX jobs_idempotency ON jobs (owner, idempotency)"
        " WHERE idempotency IS NOT NULL"},
    {1, "CREATE INDEX jobs_upload ON jobs (workspace_upload) WHERE workspace_upload IS NOT NULL"},
    {1, "CREATE TABLE specs (job TEXT PRIMARY KEY, spec TEXT NOT NULL)"},
    {1, "CREATE TABLE outcomes (job TEXT PRIMARY KEY, result TEXT, usage TEXT, plan TEXT,"
        " resume TEXT)"},
    {1, "CREATE TABLE steps (job TEXT NOT NULL, step BIGINT NOT NULL, result TEXT NOT NULL,"
        " PRIMARY KEY (job, step))"},
    {1, "CREATE TABLE events (job TEXT NOT NULL, seq BIGINT NOT NULL, type TEXT NOT NULL,"
        " text TEXT NOT NULL, PRIMARY KEY (job, seq))"},
    {1, "CREATE TABLE labels (job TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,"
        " PRIMARY KEY (job, name))"},
    {1, "CREATE INDEX labels_value ON labels (name, value, job)"},
    /* required: the job fails if the other one does. */
    {1, "CREATE TABLE dependencies (job TEXT NOT NULL, needs TEXT NOT NULL,"
        " required BIGINT NOT NULL, PRIMARY KEY (job, needs))"},
    {1, "CREATE INDEX dependencies_needs ON dependencies (needs)"},
    {1, "CREATE TABLE files (job TEXT NOT NULL, path TEXT NOT NULL, size BIGINT NOT NULL,"
        " PRIMARY KEY (job, path))"},
    /* job: of a checkpoint, which is a file of that job. */
    {1, "CREATE TABLE uploads (id TEXT PRIMARY KEY, owner TEXT NOT NULL, type TEXT NOT NULL,"
        " size BIGINT NOT NULL, created_at BIGINT NOT NULL, job TEXT)"},
    {1, "CREATE INDEX uploads_created ON uploads (created_at)"},
    {1, "CREATE INDEX uploads_job ON uploads (job) WHERE job IS NOT NULL"},
    /* Files and folders that no row names any more, until they are gone. */
    {1, "CREATE TABLE garbage (path TEXT PRIMARY KEY)"},
    {1, "CREATE TABLE users (name TEXT PRIMARY KEY, running_limit BIGINT NOT NULL DEFAULT 0,"
        " live_limit BIGINT NOT NULL DEFAULT 0, second_limit BIGINT NOT NULL DEFAULT 0,"
        " stored_limit BIGINT NOT NULL DEFAULT 0, stored_bytes BIGINT NOT NULL DEFAULT 0,"
        " cost DOUBLE PRECISION NOT NULL DEFAULT 0)"},
    {1, "CREATE TABLE keys (id TEXT PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL,"
        " role TEXT NOT NULL, hash TEXT NOT NULL, created_at BIGINT NOT NULL,"
        " removed_at BIGINT NOT NULL DEFAULT 0)"},
    {1, "CREATE UNIQUE INDEX keys_name ON keys (name) WHERE removed_at = 0"},
    {1, "CREATE TABLE audit (id TEXT PRIMARY KEY, time BIGINT NOT NULL, owner TEXT, key TEXT,"
        " address TEXT, action TEXT NOT NULL, object TEXT, status BIGINT NOT NULL)"},
    {1, "CREATE INDEX audit_time ON audit (time)"},
    {1, "CREATE TABLE probe (id BIGINT PRIMARY KEY, time BIGINT NOT NULL)"},
    {0, NULL},
};
