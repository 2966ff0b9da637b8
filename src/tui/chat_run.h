/* The two faces of the chat. Both return 0 or a negative errno with the text set. */
#pragma once

#include "tui.h"

int chat_run(const struct tui_options *o, struct error *err);  /* on a screen */
int plain_run(const struct tui_options *o, struct error *err); /* line by line */
