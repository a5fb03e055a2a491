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
  const void* kept;             /* kept row m begins at kept + m * bytes */
} dw_moe_channel;

typedef struct dw_ext_moe { /* since 1.2 */
  dw_ext head;              /* id DW_EXT_MOE, flags DW_EXT_REQUIRED */
  const dw_moe_channel* channels;
  uint64_t n_channels; /* at least 1 */
  /* Rank r is given n = counts[r] / row bytes rows: give[give_first[r]] up to
   * give[give_first[r] + n - 1] of each channel's `in`. An entry ~m is row m of
   * `kept`, memory of rows that an earlier exchange brought. This rank's rows
   * for itself are among them. Without `give` entry i is i. */
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

/* ---- sums ----
 *
 * With this second extension, required too, rows are added up on their way: the
 * rows that a rank gives may be sums of rows of its memory, and its output rows
 * may be sums in which the rows that come are terms. A backend that adds a row
 * where it comes in stores no rows.
 *
 * Channel 0 has the numbers: `in` has rows of the type `in`, `kept` and what
 * travels are rows of the type `wire`, and `out` has rows of the type `out`,
 * `width` numbers each. So its `bytes` are those of `width` numbers of `wire`.
 * A channel 1, of f32, has a weight for each row that travels and is not a sum.
 *
 * A sum is f32 for rows of f16, bf16 and f32, and f64 for those of f64;
 * integers wrap. It is rounded once, into the result; a product with a weight
 * is rounded before it is added. The host's function below does this, and gives
 * all backends the same bits. A rank's rows for itself do not move: counts[own]
 * is 0. In results they are terms that lie in `in`. */
#define DW_EXT_MOE_SUM "distwrap.moe.sum" /* since 1.2 */

/* Where a term lies: row `row` of `in`, of `kept`, or of those that come, by
 * its number k. */
#define DW_MOE_FROM_IN 0u
#define DW_MOE_FROM_KEPT 1u
#define DW_MOE_FROM_RANKS 2u

/* After a term, sum 0 is added to sum 1 and is empty again; then sum 1 to sum
 * 2. */
#define DW_MOE_CLOSE_0 0x1u
#define DW_MOE_CLOSE_1 0x2u

typedef struct dw_moe_term { /* leaf; since 1.2 */
  int32_t row;
  uint8_t from;     /* DW_MOE_FROM_ */
  uint8_t into;     /* the sum that the term is added to: 0, 1, or 2, which is
                       the result */
  uint8_t then;     /* DW_MOE_CLOSE_ bits */
  uint8_t reserved; /* 0 */
} dw_moe_term;

/* A list of sums. Sum i has the terms terms[first[i]] up to terms[first[i + 1]
 * - 1], added in this order. Each of its three sums begins with its first
 * operand; a result without operands is 0. */
typedef struct dw_moe_terms { /* leaf; since 1.2 */
  const int64_t* first;       /* one more than sums; NULL: there is no list */
  const dw_moe_term* terms;
  const float* weights; /* by term; NULL: none. Not with integers */
  uint64_t n;           /* sums */
} dw_moe_terms;

typedef struct dw_ext_moe_sum { /* since 1.2 */
  dw_ext head;                  /* id DW_EXT_MOE_SUM, flags DW_EXT_REQUIRED */
  /* `in` is f16, bf16, f32, f64, i32 or i64; `wire` is `in`, or f32 where sums
   * are f32; `out` is `in` or f32. */
  dw_dtype in, wire, out;
  uint32_t n_biases; /* 0, 1 or 2 */
  uint64_t width;    /* numbers of a row */
  /* Entry i of the rows that are given (give_first) is sum i, whose terms lie
   * in `in` and `kept`. With it there is no `give`. */
  dw_moe_terms given;
  /* Result i is written to row i of `out`, and there are no places. Every row
   * that comes is a term of one result at most, once; the rows of a rank that
   * are terms of a result have higher numbers than those of the results before.
   * A row's weight, where channel 1 has one, replaces that in `weights`. */
  dw_moe_terms results;
  /* Rows like those of `out`, by result. They are added first, into sum 2. */
  const void* bias[2];
} dw_ext_moe_sum;

#define DW_EXT_MOE_SUM_SIZE_1_2 136u /* since 1.2: its least size, frozen */

typedef struct dw_moe_operand { /* leaf; since 1.2 */
  const void* at;               /* as many numbers as the result has */
  dw_dtype dtype;
  float weight; /* looked at with DW_MOE_SUM_WEIGHTED */
  uint8_t into, then;
  uint8_t reserved[6]; /* 0 */
} dw_moe_operand;

#define DW_MOE_SUM_WEIGHTED 0x1u
/* The result need not stay in the caches. */
#define DW_MOE_SUM_PAST_CACHES 0x2u

/* The table that dw_host_api.extension gives for DW_EXT_MOE_SUM. */
typedef struct dw_moe_sum_api { /* since 1.2 */
  uint32_t struct_size, flags;  /* flags: 0 */
  /* Writes the sum of `n` operands, `width` numbers of the type `out_type`, for
   * rows of the type `in`. `out` overlaps no operand. [any] */
  void (*sum)(void* out, dw_dtype out_type, dw_dtype in,
              const dw_moe_operand* operands, uint64_t n, uint64_t width,
              uint32_t flags);
} dw_moe_sum_api;

DW_STATIC_ASSERT(sizeof(dw_moe_channel) == 32);
DW_STATIC_ASSERT(sizeof(dw_ext_moe) == DW_EXT_MOE_SIZE_1_2);
DW_STATIC_ASSERT(sizeof(dw_moe_term) == 8);
DW_STATIC_ASSERT(sizeof(dw_moe_terms) == 32);
DW_STATIC_ASSERT(sizeof(dw_ext_moe_sum) == DW_EXT_MOE_SUM_SIZE_1_2);
DW_STATIC_ASSERT(sizeof(dw_moe_operand) == 24);

#endif /* DISTWRAP_ABI_MOE_H_ */
