/* REPORT: what a test runner reported, as ENTRY frames and totals. docs/protocol.md says which
 * fields there are. */
#pragma once

#include "file.h"

int report_serve(struct file_call *c, struct error *err);
