/* What the files workbox*.c share. */
#pragma once

#include "git_box.h"
#include "workbox.h"

struct workbox {
    struct tool_box box;
    enum box_mode mode;
    int hearing;   /* from the keeper, until the box is up; -1: it is */
    bool pristine; /* nothing ran in it since it began, or since it was put back to that */
    bool plain;    /* it began as the folder is, without changes */
    struct git_box git;
    bool delivered; /* its commits were, and nothing ran in it since */
};
