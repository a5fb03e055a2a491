// The same backend in C++.
#include "echo.c"
