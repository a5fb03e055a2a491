// A library whose note says that it was built for something else, for
// library_test.cc. Its constructor shows whether any of its code runs.
#include "distwrap/registration.h"

#include <cstdlib>

#ifdef FOREIGN_NOTE
DW_BLOCK_NOTE_OF(FOREIGN_NOTE_VERSION, FOREIGN_NOTE_SANITIZER,
                 FOREIGN_NOTE_ABI);
#endif

[[gnu::constructor]] static void ran() { setenv("TEST_FOREIGN_RAN", "1", 1); }
