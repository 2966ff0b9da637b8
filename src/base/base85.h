/* The digits of base 85 as git writes it: four bytes are five of them, the highest first. */
#pragma once

#define BASE85_LINE 52u /* bytes that one line of a binary patch holds at most */

extern const char BASE85_DIGITS[86];
