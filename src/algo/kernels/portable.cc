// The kernels for any processor.
#include "algo/kernels/variants.h"

#define DW_VARIANT portable
#define DW_VARIANT_BYTES 16

#include "algo/kernels/row_sum.h"
#include "algo/kernels/table.h"
