/*
 * The FREEZE request: every process but this one is stopped until the connection closes, so that
 * what is copied from the box meanwhile is one state of it. Freezes nest; the last one to close
 * lets the processes go on.
 *
 * A process that its owner had stopped before stays stopped after. Nothing is started while a
 * freeze lasts.
 */
#pragma once

struct guest;
struct conn;
struct wire_frame;

void freeze_init(struct guest *g);
int freeze_request(struct conn *conn, const struct wire_frame *f);
