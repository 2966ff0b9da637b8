#include "grade.h"

const char GRADE_PROGRAM[] =
    ;
