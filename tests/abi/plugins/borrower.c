/* A plugin with a note whose entry symbol lies in a library that it needs. */
#include "distwrap/abi/note.h"

DW_PLUGIN_NOTE;

int dw_test_lent(void);
__attribute__((visibility("default"))) int dw_test_borrow(void);
int dw_test_borrow(void) { return dw_test_lent(); }
