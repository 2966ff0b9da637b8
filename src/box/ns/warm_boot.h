/* The Python program that a warm process begins with; it loads the part and then the program it is
 * opened for.
 */
#pragma once

extern const char WARM_BOOT[];
