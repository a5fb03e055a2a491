/* Stands for another version of the library: all that tells it apart. */
const char* distwrap_version(void);
const char* distwrap_version(void) { return "9.9.9"; }
