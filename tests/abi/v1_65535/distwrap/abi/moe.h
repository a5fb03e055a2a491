/* The extension distwrap.moe: an exchange of rows that lie apart. Since 1.2.
 *
 * A plain all_to_all_v moves one packed block between each two ranks. With this
 * extension, which is required, both sides are lists of rows: those that a rank
 * gives lie anywhere in its input, and those that it gets belong to any rows of
 * its output, some to several. So neither side packs rows.
 *
 * The operation is an all_to_all with counts per rank, of u8. The buffers have
 * no `data`, no `parts` and no `displs`; `counts[r]` are the bytes that move to
 * or from rank r: a row's bytes times the rows.
 *
 * A row has a part in each channel. Backends may send the parts of a row one
 * behind the other; ranks agree on the bytes of a row, the sum of its
 * channels'.
 *
 * The host has checked that the lists stay inside the caller's memory, that
 * places do not repeat, and that inputs and outputs do not overlap. The struct
 * is borrowed for the call, as every extension is; channels, lists and scratch
 * memory are borrowed until completion, as buffers are. */
#ifndef DISTWRAP_ABI_MOE_H_
#define DISTWRAP_ABI_MOE_H_

#include "distwrap/abi/types.h"

#define DW_EXT_MOE "distwrap.moe" /* since 1.2 */

typedef struct dw_moe_channel { /* leaf; since 1.2 */
  const void* in;               /* row i begins at in + i * bytes        */
  void* out;                    /* place p begins at out + p * bytes     */
  uint64_t bytes;               /* bytes of a row's part, >= 1           */
} dw_moe_channel;

typedef struct dw_ext_moe { /* since 1.2 */
  dw_ext head;              /* id DW_EXT_MOE, flags DW_EXT_REQUIRED */
  const dw_moe_channel* channels;
  uint64_t n_channels; /* at least 1 */
  /* Rank r is given n = counts[r] / row bytes rows: give[give_first[r]] up to
   * give[give_first[r] + n - 1] of each channel's `in`. This rank's rows for
   * itself are among them. Without `give` entry i is i. */
  const int64_t* give_first; /* by rank */
  const int32_t* give;
  /* Row i of the n that come from rank r has the number k = get_first[r] + i,
   * and is written to the places place[place_first[k]] up to
   * place[place_first[k + 1] - 1] of each channel's `out`, or to none. Without
   * `place_first` every row has one place, place[k]; without both, k. */
  const int64_t* get_first; /* by rank */
  const int64_t* place_first;
  const int32_t* place;
  /* Memory of the caller, in which rows may lie on their way. Whoever needs
   * more, or finds NULL here, takes its own. */
  void* scratch;
  uint64_t scratch_bytes;
} dw_ext_moe;

#define DW_EXT_MOE_SIZE_1_2 104u /* since 1.2: its least size, frozen */

DW_STATIC_ASSERT(sizeof(dw_moe_channel) == 24);
DW_STATIC_ASSERT(sizeof(dw_ext_moe) == DW_EXT_MOE_SIZE_1_2);

#endif /* DISTWRAP_ABI_MOE_H_ */
