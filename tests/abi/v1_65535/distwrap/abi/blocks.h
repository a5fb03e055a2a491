/* The extension distwrap.blocks: an exchange or a gather of strided pieces.
 * Since 1.2.
 *
 * A plain all_to_all or all_gather with counts moves packed pieces. With this
 * extension, which is required, the pieces lie as blocks in larger buffers:
 * runs of bytes at regular distances. So neither side packs them. A host asks
 * by `query` whether a backend has it for the operation, and packs where it has
 * not; all ranks of a call have the extension, or none.
 *
 * The operation is an all_to_all or an all_gather with counts per rank, of u8,
 * without `displs` and `parts`. `data` of a buffer is the address from which
 * its blocks count, and counts[r] are the bytes of block r. The input of an
 * all_gather has no counts: it is one block of `count` bytes, which all ranks
 * get. A block of no bytes is not looked at. Blocks of the input may overlap
 * each other, those of the output do not.
 *
 * The host has checked that the blocks lie in the caller's memory. The struct
 * and its lists are borrowed for the call, those of a prepared operation until
 * plan_destroy. */
#ifndef DISTWRAP_ABI_BLOCKS_H_
#define DISTWRAP_ABI_BLOCKS_H_

#include "distwrap/abi/types.h"

#define DW_EXT_BLOCKS "distwrap.blocks" /* since 1.2 */

/* Runs of `run` bytes. The run with the indices i0, i1, i2 begins at
 * begin + i0 * strides[0] + i1 * strides[1] + i2 * strides[2] bytes; they count
 * with i2 as the fastest. */
typedef struct dw_block { /* leaf; since 1.2 */
  uint64_t begin, run;
  uint64_t extents[3]; /* each at least 1 */
  uint64_t strides[3];
} dw_block;

typedef struct dw_ext_blocks { /* since 1.2 */
  dw_ext head;                 /* id DW_EXT_BLOCKS, flags DW_EXT_REQUIRED */
  const dw_block* in;          /* by rank: what it is given; of an
                                  all_gather one block for all */
  const dw_block* out;         /* by rank: what comes from it */
} dw_ext_blocks;

#define DW_EXT_BLOCKS_SIZE_1_2 48u /* since 1.2: its least size, frozen */

DW_STATIC_ASSERT(sizeof(dw_block) == 64);
DW_STATIC_ASSERT(sizeof(dw_ext_blocks) == DW_EXT_BLOCKS_SIZE_1_2);

#endif /* DISTWRAP_ABI_BLOCKS_H_ */
