/*
 * STAGE: makes parts of the box exactly what the host says, whatever was there.
 *
 * The files come one after the other in the order of their paths, each is compared with what is
 * there and written only if that differs; then whatever else lies at the paths of `own` is removed.
 * What differed is reported. The tree is hostile: no link is followed, nothing but a regular file
 * is ever opened, a folder that forbids its owner to enter it is opened up first, and what stands
 * where a folder must be is removed.
 *
 * No other process may write there meanwhile: the host stages boxes in which nothing runs.
 */
#pragma once

#include "file.h"
#include "wire.h"

int stage_serve(struct file_call *c, struct error *err);
