/* Texts of foreign/, as they are put into boxes of tasks that come from others. */
#pragma once

/* Python, behind a conftest.py: calls what handles options, with the default of each. */
extern const char QUIXBUGS_CONFTEST_END[];
