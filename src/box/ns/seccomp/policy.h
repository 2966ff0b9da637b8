/*
 * What code in a box may ask of the kernel, as data.
 *
 * The table is read by people, by generate.c (which makes the filter of it when hutch is built) and
 * by the unit test (which asks the finished filter about every number and compares). Three kinds of
 * entries:
 *
 *   - groups: names with one verdict, whatever the arguments;
 *   - checks: one name, with cases on its arguments; the first case that holds decides, else
 *     `otherwise`;
 *   - everything not named gets POLICY_DEFAULT.
 *
 * Only the low 32 bits of an argument are looked at. This is right, and the only right thing, for
 * each argument tested here: the kernel takes them as int, unsigned int or mode_t, or cuts them
 * itself (clone), so bits above do not count.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/seccomp.h>

#define POLICY_ALLOW        SECCOMP_RET_ALLOW
#define POLICY_ERRNO(error) (SECCOMP_RET_ERRNO | (error))

/* The call waits until the guest has decided on it, or carried it out (src/guest/notify.c). */
#define POLICY_NOTIFY SECCOMP_RET_USER_NOTIF

/* A call that hutch does not know yet looks like one that the kernel does not have: libraries then
 * fall back. */
#define POLICY_DEFAULT POLICY_ERRNO(ENOSYS)

#define POLICY_TESTS_MAX 3
#define POLICY_CASES_MAX 8

struct policy_group {
    uint32_t action;
    const char *names; /* separated by spaces */
};

/* Holds when (argument & mask) == value, or with `negate`, when it differs. A mask of 0 ends a list
 * of tests. */
struct policy_test {
    uint32_t mask;
    uint32_t value;
    uint8_t arg;
    bool negate;
};

/* Holds when all tests do. No test at all ends a list of cases. */
struct policy_case {
    uint32_t action;
    struct policy_test tests[POLICY_TESTS_MAX];
};

struct policy_check {
    const char *name;
    uint32_t otherwise;
    struct policy_case cases[POLICY_CASES_MAX];
    uint32_t unheard; /* in place of POLICY_NOTIFY, in a filter that nobody listens to */
};

/* Calls younger than the libseccomp of the build; such numbers are the same on every
 * architecture. */
struct policy_number {
    const char *name;
    int number;
};

extern const struct policy_group policy_groups[];
extern const size_t policy_n_groups;
extern const struct policy_check policy_checks[];
extern const size_t policy_n_checks;
extern const struct policy_check
    policy_diff_worker_checks[]; /* in place of those of the same name, for a diff worker */
extern const size_t policy_n_diff_worker_checks;
extern const struct policy_number policy_numbers[];
extern const size_t policy_n_numbers;
