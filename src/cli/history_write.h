/* The forms in which a session can be written. */
#pragma once

#include <stdio.h>

#include "history.h"

int history_write_md(struct history *h, FILE *out, struct error *err);
int history_write_html(struct history *h, FILE *out, struct error *err);
