// The loops for every processor.
#include "cpu/loops_variants.h"

#define DW_VARIANT portable
#define DW_VARIANT_NAME "portable"
#define DW_VARIANT_TABLE kLoopsPortable
#define DW_VARIANT_BYTES 16
#include "cpu/loops_body.h"
