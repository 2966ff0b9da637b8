/*
 * Limits that the guest watches itself, where no cgroup does: CPU time, memory and processes of a
 * command's whole tree, looked at twenty times a second. A command without such a limit costs
 * nothing.
 */
#pragma once

struct command;
struct loop_timer;

void sample_start(struct command *c);
void sample_fire(struct loop_timer *t);
