/* The operations of a plan, each one function; only carry.c calls them. Async-signal-safe; 0 or a
 * negative errno. */
#pragma once

#include "plan.h"

int carry_tmpfs(struct carry *c, const struct op *op);
int carry_proc(struct carry *c, const struct op *op);
int carry_new_proc(int *ret_fd); /* a procfs of the caller's pid namespace; for outer_proc.c too */
int carry_devpts(struct carry *c, const struct op *op);
int carry_overlay(struct carry *c, const struct op *op);
int carry_refresh(struct carry *c, const struct op *op);
int carry_clone(struct carry *c, const struct op *op);
int carry_kernel_fs(struct carry *c, const struct op *op);
int carry_show(struct carry *c, const struct op *op);
int carry_cover(struct carry *c, const struct op *op);
int carry_attach(struct carry *c, const struct op *op);
int carry_pivot(struct carry *c, const struct op *op);

int carry_mkdir(struct carry *c, const struct op *op);
int carry_symlink(struct carry *c, const struct op *op);
int carry_file(struct carry *c, const struct op *op);
int carry_hide(struct carry *c, const struct op *op);
int carry_mark(struct carry *c, const struct op *op);
int carry_chdir(struct carry *c, const struct op *op);

int carry_network(struct carry *c, const struct op *op);
int carry_listen(struct carry *c, const struct op *op);
int carry_hostname(struct carry *c, const struct op *op);
int carry_sysctl(struct carry *c, const struct op *op);
int carry_handover(struct carry *c, const struct op *op);

int carry_rlimit(struct carry *c, const struct op *op);
int carry_confine(struct carry *c, const struct op *op);
int carry_landlock(struct carry *c, const struct op *op);
int carry_seccomp(struct carry *c, const struct op *op);
int carry_exec(struct carry *c, const struct op *op);

/* The directory a path of an operation starts from: AT_FDCWD for SLOT_HOST. */
int carry_dir(const struct carry *c, int slot);
