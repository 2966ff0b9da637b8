/* Texts of foreign/, as they are put into boxes of tasks that come from others. */
#pragma once

/* Python, behind a conftest.py: calls what handles options, with the default of each. */
extern const char QUIXBUGS_CONFTEST_END[];

/* bash: functions in the place of programs that fetch packages. */
extern const char HARBOR_STAND_INS[];

/* bash: the programs uv and uvx. */
extern const char HARBOR_UV[];

/* Python: the plugin hutch_ctrf of pytest. */
extern const char HARBOR_CTRF[];

/* bash: the function that carries out a RUN line. */
extern const char HARBOR_SETUP[];
