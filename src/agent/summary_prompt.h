/* The built-in instruction for summaries; ~/.config/hutch/summary.md stands over it. */
#pragma once

extern const char SUMMARY_PROMPT[];
