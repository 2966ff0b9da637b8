/*
 * Which files a REPORT is about: one file, all of a folder, or those that a pattern names (* ? [ ]
 * within a part of the path, ** for any number of parts). Links are not followed on the way, and
 * neither .git nor node_modules is entered.
 */
#pragma once

#include "file.h"

#define REPORT_FILES_MAX 10000u

struct report_files {
    char **paths; /* sorted */
    size_t count;
    bool single; /* the path itself was the file */
    size_t base; /* how many bytes of each path are the folder that was asked about */
};

int report_files_find(struct file_call *c, struct report_files *ret, struct error *err);
void report_files_free(struct report_files *f);

/* Does the path match? Both are relative, with / between their parts. */
bool report_glob(const char *pattern, const char *path);
