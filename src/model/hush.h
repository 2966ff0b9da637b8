/*
 * SIGPIPE, where a library writes to connections that the other side may have closed.
 *
 * OpenSSL does so without asking that no signal be sent. It goes to the thread that wrote: between
 * hush_begin() and hush_end() it is blocked there, and taken if it came. No other thread notices.
 */
#pragma once

#include <signal.h>

struct hush {
    sigset_t before;
};

void hush_begin(struct hush *ret);
void hush_end(struct hush *h);
