/* A session for people: as Markdown, or as one HTML page with everything in it. */
#pragma once

#include <stdio.h>

#include "history.h"

int history_write_md(struct history *h, FILE *out, struct error *err);
int history_write_html(struct history *h, FILE *out, struct error *err);
