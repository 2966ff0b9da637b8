/*
 * What the files of `hutch job` share: job.c reads, lists and ends jobs, job_submit.c submits them,
 * job_watch.c follows one, job_pack.c makes a tar of a folder.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "api.h"
#include "cli.h"

#define JOB_PATH_MAX   128 /* of "/v1/jobs/ID/events", if the ID is one */
#define EXIT_TIMEOUT   124
#define EXIT_CANCELLED 130

/* Options of all commands of jobs: the beginning of their targets. */
struct job_server {
    const char *server, *key_file;
};
extern const struct option JOB_SERVER_OPTIONS[];

/* Opens the server and watches signals. */
int job_server_open(const struct job_server *o, struct api *ret, struct error *err);

/* The exit status of a failure: 128+N after signal N. */
int job_failure(const struct error *err);

/* "/v1/jobs/ID" with `below` behind it. -EINVAL: that is no ID. */
int job_path(const char *id, const char *below, char path[JOB_PATH_MAX], struct error *err);
int job_get(struct api *a, const char *id, json_t **ret, struct error *err);

/* 0 completed, 1 failed, 124 after a timeout, 130 cancelled. */
int job_exit_status(const json_t *job);

/* Follows a job to its end, and reads it then. `progress`: with short lines on stderr, and the output
 * of its steps on stdout unless `quiet_output`. */
int job_watch(struct api *a, const char *id, bool progress, bool quiet_output, json_t **ret,
              struct error *err);

/* Prints agent.log, and with `follow` what is added until the job ends. */
int job_print_log(struct api *a, const char *id, bool follow, struct error *err);

/* A tar of a folder as an unnamed file: of a git repository what git does not ignore, without .git;
 * else, and with `everything`, all of it. */
int job_pack(const char *folder, bool everything, int *ret_fd, uint64_t *ret_size,
             struct error *err);
