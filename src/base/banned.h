/* Calls that have no safe use here are banned by name; every source file includes this last. */
#pragma once

#define BANNED(f) sorry_##f##_is_banned

#undef strcpy
#define strcpy(...) BANNED(strcpy)
#undef strcat
#define strcat(...) BANNED(strcat)
#undef strncpy
#define strncpy(...) BANNED(strncpy)
#undef strncat
#define strncat(...) BANNED(strncat)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf)
#undef strtok
#define strtok(...) BANNED(strtok)
#undef gets
#define gets(...) BANNED(gets)
#undef system
#define system(...) BANNED(system)
#undef popen
#define popen(...) BANNED(popen)
#undef alloca
#define alloca(...) BANNED(alloca)
#undef tmpnam
#define tmpnam(...) BANNED(tmpnam)
#undef mktemp
#define mktemp(...) BANNED(mktemp)
