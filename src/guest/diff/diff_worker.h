/*
 * The diff worker: reads what a box changed, from outside of it.
 *
 * It is this same program in namespaces of its own, where no code of the agent ever runs, with the
 * box's layers shown beneath /w (the workspace) and /r (the root filesystem); tree.h names them.
 * The box's processes are stopped or dead while it works. Everything it reads is hostile
 * nevertheless: it never follows a link, opens regular files and folders only, and keeps a number
 * of descriptors that does not depend on what it meets.
 */
#pragma once

/* Answers connections that arrive on the control socket, one after the other, until its end: 0 or a
 * negative errno. */
int diff_worker_main(int control);
