/*
 * The store: a database, its migrations, its readers, and one writer that commits the changes of
 * many threads together.
 *
 * A database is a row of functions (struct db_driver); sqlite.c is the first. All SQL above it is
 * portable: parameters are $1, $2, …; INSERT … ON CONFLICT, RETURNING, WITH RECURSIVE and partial
 * indexes are used, and nothing that only one database has.
 */
#pragma once

#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum db_type { DB_NULL, DB_INT, DB_REAL, DB_TEXT };

struct db_value {
    enum db_type type;
    size_t n; /* bytes of the text */
    union {
        int64_t i;
        double real;
        const char *text; /* of a column: NUL-terminated */
    };
};

static inline struct db_value db_int(int64_t i)
{
    return (struct db_value){.type = DB_INT, .i = i};
}

static inline struct db_value db_real(double d)
{
    return (struct db_value){.type = DB_REAL, .real = d};
}

struct db_value db_text(const char *s); /* NULL: null */
struct db_value db_text_n(const char *s, size_t n);

/* --- a connection, for one thread at a time --- */

struct db;

#define DB_COLUMNS_MAX 40

/* The rows of a query. */
struct db_rows {
    struct db *db;
    void *statement;                        /* the driver's */
    unsigned n;                             /* columns */
    struct db_value column[DB_COLUMNS_MAX]; /* of the present row, until the next is fetched */
};

struct db_driver {
    const char *scheme; /* "sqlite:" */
    /* Opens a connection; `where` is what stands behind the scheme. */
    int (*open)(const char *where, struct db **ret, struct error *err);
    void (*close)(struct db *db);
    /* A reader's transaction sees one state of the database, a writer's is the only one. */
    int (*begin)(struct db *db, bool writer, struct error *err);
    bool (*in_transaction)(struct db *db); /* false once an error has ended it */
    int (*query)(struct db *db, struct db_rows *ret, const char *sql, const struct db_value *values,
                 size_t n, struct error *err);
    int (*next)(struct db_rows *rows, struct error *err);
    void (*done)(struct db_rows *rows);
    int64_t (*changed)(struct db *db); /* rows that the last statement changed */
};

extern const struct db_driver SQLITE;

struct db {
    const struct db_driver *driver;
};

/* Runs one statement. Constraints that do not hold are -EEXIST, a full disk is -ENOSPC. */
int db_query(struct db *db, struct db_rows *ret, const char *sql, const struct db_value *values,
             size_t n, struct error *err);
int db_next(struct db_rows *rows, struct error *err); /* 1: a row, 0: the end */
void db_rows_done(struct db_rows *rows);
#define _cleanup_rows_ _cleanup_(db_rows_done)

/* Runs one to its end: the number of rows changed. */
int64_t db_run(struct db *db, const char *sql, const struct db_value *values, size_t n,
               struct error *err);

#define DB_VALUES(...)                                                                             \
    (const struct db_value[]){__VA_ARGS__},                                                        \
        sizeof((const struct db_value[]){__VA_ARGS__}) / sizeof(struct db_value)
#define DB_QUERY(db, ret, err, sql, ...) db_query((db), (ret), (sql), DB_VALUES(__VA_ARGS__), (err))
#define DB_RUN(db, err, sql, ...)        db_run((db), (sql), DB_VALUES(__VA_ARGS__), (err))

int64_t db_column_int(const struct db_rows *rows, unsigned i);      /* 0 if it is null */
const char *db_column_text(const struct db_rows *rows, unsigned i); /* NULL if it is null */

/* --- the store --- */

struct store;

/* Makes or upgrades the database. `url`: sqlite:PATH. */
int job_store_open(const char *url, struct store **ret, struct error *err);
struct store *store_close(struct store *s); /* after the changes that wait */

/* A connection for reading, inside of a transaction if `snapshot`. */
struct db *store_reader(struct store *s, bool snapshot, struct error *err);
void store_reader_done(struct store *s, struct db *db);

/*
 * A change. `apply` runs on the writer's thread in a transaction, perhaps again if that failed: it
 * changes nothing but the database and its own struct. If it fails, what it changed is undone, and
 * other changes are not affected. `committed` (or NULL) runs on the same thread once the change is
 * durable, in the order of the changes.
 */
struct store_change {
    int (*apply)(struct db *db, struct store_change *c, struct error *err);
    void (*committed)(struct store_change *c);
    /* the writer's */
    struct store_change *next;
    struct error error;
    int result;
    bool posted;
    sem_t done;
};
/* Waits until it is durable. */
int store_change(struct store *s, struct store_change *c, struct error *err);
/* Does not wait: the change is freed when it is done. False: too many wait, and it was freed. */
bool store_post(struct store *s, struct store_change *c);

struct store_statistics {
    uint64_t commits, changes, failures;
    int64_t commit_ns; /* all together */
};
void store_statistics(struct store *s, struct store_statistics *ret);

/* schema.c: a statement each; a migration is the statements of one number. */
struct migration {
    unsigned number;
    const char *sql;
};
extern const struct migration MIGRATIONS[]; /* ended by number 0 */
