/* An imaginary version 1.65535 for tests: the table has one more slot, and a
 * backend may make one more offer.
 *
 * The distwrap C ABI: what a backend gives, what the host gives back.
 *
 * A backend is a table of functions. A plugin is a shared library that exports
 * one symbol, `dw_plugin_query_v1`, which returns its table, and carries a note
 * (note.h). It includes these headers and links nothing of distwrap. The same
 * table serves a backend that is linked in, and a decorator, which is a backend
 * to the host above it and a host to the tables below it.
 *
 * Threads: every slot carries one tag.
 *   [any]      from any thread at any time
 *   [comm]     the host calls it from one thread at a time per communicator;
 *              DW_BACKEND_SUBMIT_BESIDE allows more
 *   [backend]  from one thread at a time per backend instance
 *   [init]     from one thread, before anything else of this instance
 * Ownership: opaque objects belong to the side named in types.h.
 * Errors: a code of codes.h; the last argument, which may be NULL, takes the
 * detail. Outputs are set on success only. No slot prints, exits, aborts,
 * throws or blocks, except as DW_FLAG_CALLER_WAITS and DW_BACKEND_STREAMS say.
 * After fork, in the child, all but `close` answer DW_FAILED_PRECONDITION.
 *
 * The smallest complete backend is backends/loopback.
 */
#ifndef DISTWRAP_ABI_PLUGIN_H_
#define DISTWRAP_ABI_PLUGIN_H_

#include "distwrap/abi/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out[i] = in[0][i] (+) in[1][i] (+) ... (+) in[n-1][i], in this order, n >= 1.
 * `out` may be one of the inputs; it overlaps them in no other way. 16-bit
 * floats accumulate in f32 and round once, at the end.
 * `operand` is looked at by two reductions: avg divides the sum by the int64_t
 * there; premul_sum multiplies every input by the factor there, which is of the
 * dtype. So avg of one input divides, premul_sum of one input scales. */
typedef void (*dw_reduce_fn)(void* out, const void* const* in, uint64_t n,
                             uint64_t count, const void* operand);

#define DW_LOG_ERROR 1
#define DW_LOG_WARNING 2
#define DW_LOG_INFO 3
#define DW_LOG_DEBUG 4

/* The only way back into the host. Valid until `close` returns. All [any]. */
typedef struct dw_host_api {
  uint32_t struct_size;
  uint16_t abi_major, abi_minor;
  void* self; /* first argument of the functions that take one */

  /* Ends a pending operation, exactly once; `error` is NULL on DW_OK. With an
   * error only when the plugin will never touch the op's buffers again. */
  void (*complete)(dw_work* work, int32_t code, const dw_error* error);
  /* A finding for people, at a DW_LOG_ level; lower case, no newline. */
  void (*log)(void* self, int32_t level, dw_str text);
  /* The host's monotonic clock, ns. */
  int64_t (*now_ns)(void* self);
  /* Asks for a call of `progress` soon, from the session's thread. */
  void (*wake)(void* self);
  /* Memory for staging, 64-byte aligned; NULL when there is none. */
  void* (*scratch_alloc)(void* self, uint64_t bytes);
  void (*scratch_free)(void* self, void* memory);
  /* Host reduction kernel; NULL where the pair makes no sense. */
  dw_reduce_fn (*reduce_kernel)(void* self, dw_dtype dtype, uint16_t reduce);
  /* Table of a named extension of the host, NULL when unknown. */
  const void* (*extension)(void* self, dw_str id, uint32_t minor);
  /* The operation with this `trace` (not NULL) is under way: its part is on the
   * way to the others. Any number of times. For DW_BACKEND_SAYS_UNDER_WAY. */
  void (*under_way)(dw_trace* trace);
  /* The operation waits for others, longer than a few microseconds. Any number
   * of times. For DW_BACKEND_SAYS_WAITS. */
  void (*waits)(dw_trace* trace);
  /* Since 1.2. The device has begun the pending operation: what its stream had
   * before has ended. At most once, before `complete`, and not from inside a
   * slot. For DW_BACKEND_SAYS_BEGUN. */
  void (*begun)(dw_work* work);
} dw_host_api;

typedef struct dw_backend_api dw_backend_api;

typedef struct dw_inner { /* leaf; a table under a decorator */
  const dw_backend_api* api;
  dw_backend* backend; /* NULL: the decorator opens it */
} dw_inner;

typedef struct dw_open_info {
  uint32_t struct_size, flags;
  int32_t device_type, device_id; /* DLPack's */
  const dw_hint* hints;
  uint64_t n_hints;
  const dw_inner* inner; /* decorators only */
  uint64_t n_inner;
  const dw_ext* next;
} dw_open_info;

/* Properties of a backend. */
/* A *caller waits* operation may block on what the plugin cannot time out: the
 * host watches its deadline and ends it by `comm_abort`. */
#define DW_BACKEND_HOST_WATCHES 0x1u
/* A decorator: `open` needs inner tables. */
#define DW_BACKEND_DECORATOR 0x2u
/* An offer: while a *caller waits* operation is inside a communicator, the host
 * may submit others to it that do not wait, from one other thread at a time:
 * messages, and collectives while the waiting operation is a message. Without
 * it the host lets the waiting call leave first. A decorator that has it passes
 * on what the backend below can. */
#define DW_BACKEND_SUBMIT_BESIDE 0x10000u
/* An offer: an operation may have a `stream` of the backend's device. It runs
 * behind what is in the stream, and later work there waits for it, except with
 * DW_FLAG_ASIDE. `submit` returns when it is enqueued, and may wait for that to
 * its deadline; comm_abort ends the wait in 50 ms. `complete` comes when the
 * device has ended it; a captured one is DW_DONE. Without it: no streams. */
#define DW_BACKEND_STREAMS 0x20000u
/* An offer: a collective or message that has a `trace` and waits for others for
 * more than a few microseconds calls `waits`. The host then knows that one
 * which has not called it was quick. */
#define DW_BACKEND_SAYS_WAITS 0x40000u
/* An offer: a collective or message that has a `trace` calls `under_way` before
 * it waits for others, best as soon as they can see its part: what the host
 * keeps of the call is written while that part is on its way to them. An
 * operation that ends without having waited need not call it. */
#define DW_BACKEND_SAYS_UNDER_WAY 0x80000u
/* An offer: threads of the backend complete operations that nobody waits for.
 * The host calls `progress` only for those that somebody waits for; without
 * this flag also from the session's thread, while any are in flight. */
#define DW_BACKEND_HAS_THREADS 0x100000u
/* An offer: what the backend sends to other hosts is encrypted, and nobody
 * outside of the group can add to it. Jobs may ask for such a backend alone.
 * Since 1.2. */
#define DW_BACKEND_PROTECTS_DATA 0x200000u
/* An offer: a pending operation waits in a queue of the device until the
 * backend calls `begun` for it. Since 1.2. */
#define DW_BACKEND_SAYS_BEGUN 0x400000u
/* Floats are reduced by the engine's own rules and not by those of
 * reductions.def: every step may round to the element type, in any order; avg
 * may divide the inputs, and add them up then; min and max may leave out NaN
 * where another input is a number. A result is off by at most the epsilon of
 * its type times the ranks times the sum of the sizes of its terms. A decorator
 * reduces as the backend below. Since 1.2. */
#define DW_BACKEND_OWN_FLOATS 0x800000u

/* An offer: `comm_health` is cheap. Since 1.65535. */
#define DW_BACKEND_KNOWS_HEALTH 0x40000000u
/* A demand: the host calls `comm_health` before every operation. Since 1.65535. */
#define DW_BACKEND_NEEDS_HEALTH 0x4000u

/* Operations that a decorator only hands on (slot `pass`). */
typedef struct dw_pass { /* leaf */
  uint64_t ops;          /* bit DW_OP_<KIND> */
  dw_comm* comm;         /* the inner backend's communicator */
  dw_window* window;     /* the inner backend's window; NULL: none was named */
} dw_pass;

/* A backend. Required: name, open, close, caps, setup_begin, setup_step,
 * setup_cancel, comm_abort, comm_destroy, query, submit. The host copies the
 * table; a slot that is NULL or behind `struct_size` answers DW_UNIMPLEMENTED.
 */
struct dw_backend_api {
  uint32_t struct_size;
  uint16_t abi_major, abi_minor;
  uint32_t flags;      /* DW_BACKEND_<PROPERTY>; growth rule 5       */
  uint32_t devices;    /* bit d: DLPack device type d                */
  dw_str name;         /* [a-z][a-z0-9_]*, the name users write      */
  dw_str version;      /* engine's version, for people                  */
  const dw_str* hints; /* known keys of hints; others are refused */
  uint64_t n_hints;

  /* ---- life ---- */
  int32_t (*open)(const dw_host_api* host, const dw_open_info* info,
                  dw_backend** backend, dw_error* error); /* [init]    */
  /* After the last communicator is destroyed. */
  void (*close)(dw_backend* backend); /* [backend] */
  /* Rows stay valid until `close`. */
  int32_t (*caps)(dw_backend* backend, const dw_caps_row** rows,
                  uint64_t* n_rows, dw_error* error); /* [any]     */

  /* ---- groups ----
   * A communicator is built in rounds: each call gives a blob, the host
   * all-gathers the blobs of the round and hands them back, n of them in rank
   * order, until setup_step answers DW_DONE with the result. All ranks end in
   * the same round. Blobs given out are borrowed until the next call. An error
   * ends the setup: the object is gone. */
  int32_t (*setup_begin)(dw_backend* backend, const dw_setup_info* info,
                         dw_setup** setup, dw_blob* out,
                         dw_error* error); /* [backend] */
  int32_t (*setup_step)(dw_setup* setup, const dw_blob* in, uint64_t n,
                        dw_blob* out, dw_setup_result* result,
                        dw_error* error); /* [backend] */
  void (*setup_cancel)(dw_setup* setup);  /* [backend] */
  /* Ends everything in flight within 50 ms; later submits fail at once. */
  int32_t (*comm_abort)(dw_comm* comm, const dw_error* why); /* [any]     */
  /* No operation is in flight. Bounded by the deadline, 0: at once. */
  int32_t (*comm_destroy)(dw_comm* comm, int64_t deadline_ns,
                          dw_error* error); /* [comm]    */

  /* ---- work ---- */
  /* DW_OK native, DW_DONE native with an extra copy, DW_UNIMPLEMENTED no. */
  int32_t (*query)(dw_comm* comm, const dw_op* op, dw_error* error); /* [any] */
  /* DW_DONE: finished inside the call, `work` is not touched. DW_OK: pending,
   * completes `work` once. DW_AGAIN: no resources, nothing started. An error:
   * nothing started, or (caller waits) it failed. `work` is NULL when the op
   * carries DW_FLAG_CALLER_WAITS and the answer then never is DW_OK.
   * After a failure the host calls `comm_abort`, so that peers learn of it.
   * A caller-waits operation ends by its deadline, and within 50 ms after
   * `comm_abort` from another thread.
   * Operations on a window are [any]: several threads at once, beside whatever
   * else runs in the communicator; one that waits holds no other up. Their
   * deadlines are kept by the backend, also where the host watches others. */
  int32_t (*submit)(dw_comm* comm, const dw_op* op, dw_work* work,
                    dw_error* error); /* [comm]    */
  /* A set that may not deadlock among itself, whatever its order. DW_DONE: all
   * finished; DW_OK: every item completes once; else nothing started. When all
   * items carry DW_FLAG_CALLER_WAITS, the call may run to the end of the set,
   * as `submit` does, and never answers DW_OK. */
  int32_t (*submit_group)(dw_backend* backend, const dw_group_item* items,
                          uint64_t n, dw_error* error); /* [backend] */
  /* Never blocks; how many events it handled. A missing one answers 0. */
  int32_t (*progress)(dw_backend* backend); /* [backend] */
  /* How the session's thread sleeps while operations of a backend without
   * threads are in flight: arm, then poll `fd` (readable) when arm answers
   * DW_OK; DW_AGAIN means call progress first. The descriptor stays the same.
   * Without these slots the thread calls progress at growing intervals. */
  int32_t (*wait_fd)(dw_backend* backend, int32_t* fd); /* [backend] */
  int32_t (*arm)(dw_backend* backend);                  /* [backend] */

  /* ---- memory ---- */
  int32_t (*mem_alloc)(dw_backend* backend, uint64_t bytes, dw_mem** mem,
                       void** address, dw_error* error); /* [any]     */
  int32_t (*mem_register)(dw_backend* backend, void* address, uint64_t bytes,
                          dw_mem** mem, dw_error* error); /* [any]     */
  /* Not called by any host of 1.0: mem_export, mem_import. */
  int32_t (*mem_export)(dw_backend* backend, dw_mem* mem, dw_blob* out,
                        dw_error* error); /* [any]     */
  int32_t (*mem_import)(dw_backend* backend, const dw_blob* in, dw_mem** mem,
                        void** address, dw_error* error); /* [any]     */
  int32_t (*mem_release)(dw_backend* backend, dw_mem* mem,
                         dw_error* error); /* [any]     */
  /* Begins rounds that setup_step goes on with; `info->parent` is `comm`. With
   * elements and no address in `info->memory` the backend allocates them. */
  int32_t (*window_create)(dw_comm* comm, const dw_setup_info* info,
                           dw_setup** setup, dw_blob* out,
                           dw_error* error); /* [backend] */
  /* Where this rank can load and store a rank's part, its own always; else
   * DW_UNIMPLEMENTED. */
  int32_t (*window_map)(dw_window* window, int32_t rank, void** address,
                        uint64_t* bytes, dw_error* error); /* [any]     */
  /* This rank's part of the end: no operation of its own is in flight. The host
   * has seen that the others have come, or that they will not. Once it has
   * returned nobody writes to `memory` any more, whatever the others do; an
   * error says why that cannot be promised before the communicator ends. */
  int32_t (*window_destroy)(dw_window* window, int64_t deadline_ns,
                            dw_error* error); /* [backend] */

  /* ---- more ---- */
  /* Not called by any host of 1.0: plan_create, plan_start, plan_destroy. */
  int32_t (*plan_create)(dw_comm* comm, const dw_op* ops, uint64_t n,
                         dw_plan** plan, dw_error* error); /* [comm]    */
  int32_t (*plan_start)(dw_plan* plan, dw_work* work,
                        dw_error* error);                  /* [comm]    */
  int32_t (*plan_destroy)(dw_plan* plan, dw_error* error); /* [comm]    */
  /* Table of a named extension, NULL when unknown. No host of 1.0 asks. */
  const void* (*extension)(dw_backend* backend, dw_str id,
                           uint32_t minor); /* [any]     */
  /* What is put into `stream` from now on runs when the operation has ended
   * that was submitted to `comm` with `work`; the host does not wait. DW_DONE:
   * it has ended already, or `work` is not known any more. */
  int32_t (*work_wait_stream)(dw_comm* comm, dw_work* work,
                              const dw_stream* stream,
                              dw_error* error); /* [any]     */
  /* Decorators: for operations of `out->ops` whose caller waits it makes no
   * difference whether they are submitted to `comm` or to the communicator
   * below, with the window below. `window` may be NULL. Messages of a rank to
   * itself are not meant. A decorator without it sees every operation. */
  int32_t (*pass)(dw_comm* comm, dw_window* window, dw_pass* out); /* [any] */
  /* Since 1.1. Whether `stream` is being captured into a graph. The host then
   * sets DW_FLAG_CAPTURE, and compares the ranks' calls by it. Without this
   * slot no stream is captured. */
  int32_t (*stream_captured)(dw_comm* comm, const dw_stream* stream,
                             int32_t* captured, dw_error* error); /* [any] */
  /* Since 1.1. This thread waits for the collective of `comm` with this
   * sequence number until the operation's own deadline. A backend that has not
   * begun it may run it here, after those before it; it completes as otherwise.
   * DW_DONE: it was run. */
  int32_t (*run_queued)(dw_comm* comm, uint64_t seq); /* [any]     */
  /* Since 1.2: prepared operations. plan_create gets one operation (n is 1),
   * not on a window, without what dw_start has. It copies what the operation
   * and its arrays say; buffers, `scale` and extensions stay borrowed until
   * plan_destroy, buffers that every start names only for that start. Where
   * `fingerprint` is not 0 it covers the counts of all pairs of ranks, too.
   * plan_run starts the operation and answers as `submit`, also while earlier
   * starts are under way. plan_destroy comes when none is, and before
   * comm_destroy. No host calls plan_start, which lacks these values. */
  int32_t (*plan_run)(dw_plan* plan, const dw_start* start, dw_work* work,
                      dw_error* error); /* [comm]    */
  /* Whether every peer is reachable. Since 1.65535. */
  int32_t (*comm_health)(dw_comm* comm, dw_error* error); /* [any]     */
};

typedef struct dw_host_info {
  uint32_t struct_size;
  uint16_t abi_major, abi_minor;
  uint32_t sanitizer; /* DW_SANITIZER_<KIND>, note.h */
  uint32_t reserved;
  dw_str version; /* host's version, for people */
} dw_host_info;

/* The entry, the only exported symbol. Returns a constant table, or NULL when
 * the plugin does not fit this host. */
typedef const dw_backend_api* (*dw_plugin_query_fn)(const dw_host_info* host);
#define DW_PLUGIN_QUERY_SYMBOL "dw_plugin_query_v1"

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* DISTWRAP_ABI_PLUGIN_H_ */
