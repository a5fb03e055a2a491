/* Data that crosses the distwrap C ABI.
 *
 * Rules of growth (frozen for major 1):
 *  1. Fixed-width integers only; no bool, enum, long, bit-field, union or
 *     va_list in a struct; padding is named and zero. 64-bit little-endian
 *     Linux.
 *  2. Structs that can grow begin with `struct_size`. Leaf structs are frozen,
 *     pinned by the assertions at the end of this file.
 *  3. An incoming struct is read by `dw_read_struct` (read.h): shorter than its
 *     1.0 size is invalid, shorter than mine is zero behind its end, longer
 *     must be zero behind mine, else incompatible. Tables of functions are
 *     offers: what lies behind the end that I know is ignored.
 *  4. Append only. Every addition but a reason is a minor with a `since 1.N`
 *     comment; nothing is removed, moved or reused. All else is 1.0.
 *  5. An unknown kind or reduction is *unimplemented*, never ignored. A word of
 *     flags has two halves: an unknown flag of the lower half is refused, one
 *     of the upper half (DW_FLAGS_OPTIONAL) is ignored. What the reader must
 *     understand goes below, what is only offered goes above.
 *  6. `next` chains carry named extensions; one with DW_EXT_REQUIRED that is
 *     unknown refuses the call, any other unknown one is skipped.
 *  7. Strings are pointer and length, UTF-8, borrowed for the call. Who
 *     allocates frees.
 *  8. A change of meaning counts like a change of layout.
 *  9. Experiments only through `extension` with an id that begins with "x-".
 * 10. tests/golden/abi_layout.txt records every offset; only new lines may
 *     appear there.
 * Zero is the default of every field, for ever.
 */
#ifndef DISTWRAP_ABI_TYPES_H_
#define DISTWRAP_ABI_TYPES_H_

#include "distwrap/abi/codes.h"

#include <stddef.h>
#include <stdint.h>

#define DW_ABI_MAJOR 1
#define DW_ABI_MINOR 2

/* The half of every word of flags that a reader may ignore (rule 5). */
#define DW_FLAGS_OPTIONAL 0xffff0000u

/* Kinds of operations, reductions and bits of capability masks. */
enum {
#define DW_OP(value, name, enumerator, text, peer, in, out, summary) \
  DW_OP_##name = value,
#include "distwrap/abi/ops.def"
};

enum {
  DW_REDUCE_NONE = 0,
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  DW_REDUCE_##name = value,
#include "distwrap/abi/reductions.def"
};

enum {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  DW_DTYPE_##name = index,
#include "distwrap/abi/dtypes.def"
};

/* Flags of an operation. An operation may be *in place*: `in.data` is the
 * address that `out` has for this rank's own part. */
#define DW_FLAG_IN_PLACE 0x1u     /* set by the host when it is so         */
#define DW_FLAG_CALLER_WAITS 0x2u /* submit may run to the end (plugin.h)  */
#define DW_FLAG_CAPTURE 0x4u      /* the stream is being captured          */
#define DW_FLAG_EXCLUSIVE 0x8u    /* scan without the own part             */
#define DW_FLAG_WITH_SIGNAL 0x10u /* put raises a signal after its data    */
#define DW_FLAG_SCALE_ON_DEVICE 0x20u /* `scale` lies in device memory */
#define DW_FLAG_PER_RANK 0x40u /* a v form; set on every rank of the call */
#define DW_FLAG_PARTS 0x80u    /* a list form; set on every rank of the call */
/* On a stream: what is put there later does not wait for the operation.
 * Known to every backend with DW_BACKEND_STREAMS, whatever its rows say. */
#define DW_FLAG_ASIDE 0x100u
/* Since 1.2. All buffers that this rank brings lie in memory of `mem_alloc`.
 * Set in collectives without lists and counts per rank, where the rows have it:
 * on all ranks of the call or on none. */
#define DW_FLAG_REGISTERED 0x200u

/* Tags of send and recv: bits 0..31 number a message within a class, bits
 * 32..39 name the class, the rest is zero. A receive takes the oldest message
 * of its source, class and number, whatever its element type and count. Where
 * those differ from the receive's, it fails with DW_REASON_CALL_MISMATCH, and
 * writes nothing that it can withhold, nor anything behind its buffer. The send
 * may have ended well; the host tells the sender. */
#define DW_TAG(tag_class, number) \
  (((uint64_t)(tag_class) << 32) | (uint64_t)(number))
#define DW_TAG_CLASS_USER 0u     /* the caller's, 0..2^31-1              */
#define DW_TAG_CLASS_BATCH 1u    /* the caller's, in groups of operations */
#define DW_TAG_CLASS_COMPOSED 2u /* parts of a composed collective        */
#define DW_TAG_CLASS_HOST 3u     /* the host's own                        */
#define DW_TAG_BITS 40

/* Comparisons of wait_signal and effects of a signal. */
#define DW_COMPARE_EQ 1u
#define DW_COMPARE_NE 2u
#define DW_COMPARE_LT 3u
#define DW_COMPARE_LE 4u
#define DW_COMPARE_GT 5u
#define DW_COMPARE_GE 6u
#define DW_SIGNAL_SET 1u
#define DW_SIGNAL_ADD 2u
#define DW_SIGNAL_PAIR UINT32_MAX /* the pair's counter instead of a slot */

#define DW_EXT_REQUIRED 0x1u

/* Device types are DLPack's. */
#define DW_DEVICE_CPU 1
#define DW_DEVICE_CUDA 2

typedef struct dw_backend dw_backend; /* plugin: one per session and device   */
typedef struct dw_comm dw_comm;       /* plugin: one per group                */
typedef struct dw_setup dw_setup;     /* plugin: a communicator being built   */
typedef struct dw_mem dw_mem;         /* plugin: registered memory            */
typedef struct dw_window dw_window;   /* plugin: collectively registered      */
typedef struct dw_plan dw_plan;       /* plugin: a prepared operation         */
typedef struct dw_work dw_work;       /* host: a completion cell              */
typedef struct dw_trace dw_trace;     /* host: notes about one waiting call   */

typedef struct dw_str { /* leaf */
  const char* data;
  uint64_t size;
} dw_str;

typedef struct dw_hint { /* leaf */
  dw_str key, value;
} dw_hint;

typedef struct dw_dtype { /* leaf; as in DLPack */
  uint8_t code, bits;
  uint16_t lanes;
} dw_dtype;

typedef struct dw_stream { /* leaf; {1, 0, NULL} or zero is host order */
  int32_t device_type, device_id;
  void* native;
} dw_stream;

typedef struct dw_ext { /* leaf; head of every named extension */
  uint32_t struct_size, flags;
  dw_str id;
  const struct dw_ext* next;
} dw_ext;

/* Filled by the callee on failure, untouched on success. The caller allocates
 * it and may pass NULL. `text` is NUL-terminated. Of a receive whose message
 * differs it is two lines, which the host shows as expected and actual:
 *   recv i32 x 8 from rank 0, tag 5 (rank 1)
 *   send f32 x 4 to rank 1, tag 5 (rank 0) */
typedef struct dw_error { /* leaf */
  int16_t code;           /* DW_<CODE>                                  */
  uint16_t reason;        /* DW_REASON_<REASON>                         */
  int32_t peer;           /* rank of the group, -1 when nobody is named */
  int32_t native;         /* the engine's own code, errno for sockets   */
  uint32_t flags;
  char text[240];
} dw_error;

typedef struct dw_buf {  /* leaf */
  void* data;            /* NULL when parts is set             */
  void* const* parts;    /* list forms: one address per rank   */
  int64_t count;         /* elements, all parts together       */
  const int64_t* counts; /* per rank (v forms), else NULL      */
  const int64_t* displs; /* per rank, in elements; else packed */
  dw_mem* mem;           /* registered memory, else NULL       */
  dw_dtype dtype;
  uint32_t reserved;
} dw_buf;

/* One operation. The op, its arrays and its chain are borrowed for the call;
 * buffers and `scale` until completion.
 *
 * Counts per rank (v forms): of `out` in all_gather and, at the root, gather;
 * of `in` in reduce_scatter and, at the root, scatter; of both in all_to_all.
 * The other buffer of a rank then holds what is that rank's. `parts` (list
 * forms) stand in place of `data`: part r is rank r's; without `counts` they
 * have equal size.
 *
 * Windows: put and accumulate read `in`, get writes `out`; fetch_op takes its
 * operands from `in`, compare_swap {expected, desired}; both give what stood
 * there before in `out`. Dtypes of `in` and `out` are the target's, but for put
 * and get into a part of u8, whose offset is any byte. The host has checked
 * `window_offset` against the target's size and the alignment of elements. A
 * put or accumulate has ended when `in` may be written again; what it did is
 * there when a flush of its target has ended. A signal is seen after the data
 * of its own put, and after earlier puts and accumulates of its thread to that
 * target; other operations are ordered by fence alone. In flush and fence
 * `peer` -1 means all targets. accumulate, fetch_op and compare_swap of one
 * element size are atomic to each other, element by element.
 * wait_signal looks at a slot of this rank, or, with DW_SIGNAL_PAIR, consumes
 * one of what `peer` has signalled by DW_SIGNAL_PAIR; `peer` is -1 otherwise.
 * At its deadline it changes nothing and may be made again.
 *
 * Time: `deadline_ns` is absolute on the host's clock (dw_host_api.now_ns).
 * When the host has not read the clock, it gives `timeout_ns` instead, which
 * runs from the submission: who has to wait reads the clock then, so that
 * an operation that never waits never reads one. Both 0: no limit. */
typedef struct dw_op {
  uint32_t struct_size;
  uint16_t kind;   /* DW_OP_<KIND>                              */
  uint16_t reduce; /* DW_REDUCE_<REDUCTION>                     */
  uint32_t flags;  /* DW_FLAG_<FLAG>                            */
  int32_t peer;    /* root, source, target; -1 none             */
  uint64_t tag;    /* send and recv: DW_TAG(class, number) */
  dw_buf in, out;
  dw_stream stream;
  int64_t deadline_ns;
  int64_t timeout_ns;
  uint64_t seq;         /* number of the collective, equal on all ranks */
  uint64_t fingerprint; /* for collectives; 0: not checked                  */
  dw_window* window;
  uint64_t window_offset; /* bytes, in the target                      */
  uint64_t value;         /* signal operand, wait reference            */
  uint32_t signal_index;  /* may be DW_SIGNAL_PAIR                         */
  uint16_t signal_how;    /* DW_SIGNAL_SET, DW_SIGNAL_ADD              */
  uint16_t compare;       /* DW_COMPARE_<HOW>                          */
  const void* scale;      /* factor of premul_sum, of the input's dtype */
  const dw_ext* next;
  /* With DW_FLAG_CALLER_WAITS, for `under_way` and `waits` of the host. NULL:
   * the host does not want to know. Valid until `submit` returns. */
  dw_trace* trace;
} dw_op;

/* Since 1.2. What one start of a prepared operation (plan_create) has of its
 * own. A start does what `submit` of the operation with these values does, so
 * ranks may mix the two. Buffers by `parts` keep their addresses. */
typedef struct dw_start {
  uint32_t struct_size;
  uint32_t flags; /* DW_FLAG_CALLER_WAITS, DW_FLAG_CAPTURE, DW_FLAG_ASIDE */
  /* Where the buffers lie; NULL: where the operation has them. */
  const void* in;
  void* out;
  dw_stream stream;
  int64_t deadline_ns;
  int64_t timeout_ns;
  uint64_t seq;
  dw_trace* trace; /* valid until plan_run returns */
} dw_start;

typedef struct dw_group_item { /* leaf; one operation of a batch */
  dw_comm* comm;
  const dw_op* op;
  dw_work* work;
} dw_group_item;

typedef struct dw_blob { /* leaf */
  const void* data;
  uint64_t size;
  const int32_t* fds; /* reach ranks of the same host; borrowed, dup to keep */
  uint64_t n_fds;
} dw_blob;

#define DW_SETUP_COMMUNICATOR 0x1u
#define DW_SETUP_WINDOW 0x2u
/* Since 1.2. Every rank of `parent` builds a communicator by this call: this
 * one or another one. Ranks of different ones have only the call in common. */
#define DW_SETUP_ALL_OF_PARENT 0x10000u

typedef struct dw_setup_info {
  uint32_t struct_size;
  uint32_t flags; /* DW_SETUP_<WHAT>                           */
  int32_t rank, size;
  uint64_t uid, epoch;        /* equal on all ranks; of the group, a
                                 window's uid its own                      */
  const int32_t* host_of;     /* per rank: index of its host; NULL unknown */
  const int32_t* parent_rank; /* per rank; -1: not in the parent           */
  dw_comm* parent;            /* split, shrink; a window's own             */
  const dw_hint* hints;
  uint64_t n_hints;
  int64_t deadline_ns;
  dw_buf memory;    /* window: my part; sizes differ by rank     */
  uint64_t signals; /* window: slots of each rank, equal on all  */
  const dw_ext* next;
} dw_setup_info;

typedef struct dw_setup_result { /* leaf; what the rounds have built */
  dw_comm* comm;
  dw_window* window;
} dw_setup_result;

/* One row of promises: for any op, dtype and reduction of the row, in `memory`
 * (bit d: DLPack device type d), with no other flags than `flags`. The limits
 * `min_bytes` and `max_bytes` (0: none) are of one rank's n elements (ops.def).
 * A row with limits holds for collectives without counts per rank, and has to
 * take DW_FLAG_IN_PLACE and DW_FLAG_PARTS where the kind knows them, so that
 * all ranks decide alike. The highest score wins: the host may compose a
 * collective of others, which has score 0, in place of one with a negative
 * score. */
typedef struct dw_caps_row { /* leaf */
  uint64_t ops;              /* bit DW_OP_<KIND>          */
  uint64_t dtypes;           /* bit DW_DTYPE_<NAME>       */
  uint32_t reductions;       /* bit DW_REDUCE_<REDUCTION> */
  uint32_t flags;
  uint32_t memory;
  int32_t score;
  uint64_t min_bytes, max_bytes;
} dw_caps_row;

#define DW_BIT(index) (UINT64_C(1) << (index))

#ifdef __cplusplus
#define DW_STATIC_ASSERT(condition) static_assert(condition, #condition)
#else
#define DW_STATIC_ASSERT(condition) _Static_assert(condition, #condition)
#endif
DW_STATIC_ASSERT(sizeof(void*) == 8);
DW_STATIC_ASSERT(sizeof(dw_str) == 16);
DW_STATIC_ASSERT(sizeof(dw_hint) == 32);
DW_STATIC_ASSERT(sizeof(dw_dtype) == 4);
DW_STATIC_ASSERT(sizeof(dw_stream) == 16);
DW_STATIC_ASSERT(sizeof(dw_ext) == 32);
DW_STATIC_ASSERT(sizeof(dw_error) == 256);
DW_STATIC_ASSERT(sizeof(dw_buf) == 56);
DW_STATIC_ASSERT(sizeof(dw_group_item) == 24);
DW_STATIC_ASSERT(sizeof(dw_blob) == 32);
DW_STATIC_ASSERT(sizeof(dw_setup_result) == 16);
DW_STATIC_ASSERT(sizeof(dw_caps_row) == 48);

#endif /* DISTWRAP_ABI_TYPES_H_ */
