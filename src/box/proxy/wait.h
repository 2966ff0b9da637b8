/* Waiting with a limit that ends when the proxy is stopped. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Waits until fd (not if -1) has one of the events, or an error. Returns 0, -ETIMEDOUT past the
 * deadline (of clock_now(); 0: none), or -ECANCELED once stop_fd is readable.
 */
int proxy_wait(int fd, short events, int stop_fd, int64_t deadline);

/* Sends all of it on a non-blocking socket. Returns 0, as above, or the negative errno of send().
 */
int proxy_send_all(int fd, const void *data, size_t n, int stop_fd, int64_t deadline);
