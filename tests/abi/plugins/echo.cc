// The echo backend in C++.
#include "echo.c"
