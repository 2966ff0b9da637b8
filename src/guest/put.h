/* PUT: see put.c and docs/protocol.md. */
#pragma once

#include "file.h"

int put_serve(struct file_call *c, struct error *err);
