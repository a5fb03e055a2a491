/* The C API: all of the facade for programs in C, and for bindings of other
 * languages.
 *
 *   int32_t sum_of_ranks(float* x, int64_t count) {
 *     distwrap_error error;
 *     distwrap_tensor t = {.data = x, .device = {DW_DEVICE_CPU, 0}, .ndim = 1,
 *                          .dtype = distwrap_dtype(DW_DTYPE_F32),
 *                          .shape = &count};
 *     int32_t code =
 *         distwrap_all_reduce(&t, &t, DW_REDUCE_SUM, NULL, NULL, &error);
 *     if (code != DW_OK) fprintf(stderr, "%s\n", distwrap_error_text(error));
 *     distwrap_error_free(error);
 *     return code;
 *   }
 *
 * Conventions:
 *
 *  (1) A function that can fail returns DW_OK or another DW_<CODE>. Its last
 *      argument is where the error goes: written by every call, NULL when it
 *      went well, else the caller's, to be freed. A NULL argument is allowed.
 *      There is no last error, of a thread or of the process.
 *  (2) Handles are opaque. They are no addresses: a handle that was freed, or
 *      is of another kind, is refused with DW_INVALID_ARGUMENT. A NULL group
 *      is the world. Each handle that a function gives out is freed once, by
 *      distwrap_<kind>_free, which ends nothing that is going on; freeing NULL
 *      is allowed.
 *  (3) Results come before `error`, as pointers; a handle among them is set to
 *      NULL by a call that fails.
 *  (4) Structs that can grow begin with `struct_size`, which the caller sets to
 *      its sizeof. All other fields at zero mean what is usual. A NULL pointer
 *      to options is all zero.
 *  (5) Integers are of fixed width; truth is 0 or 1. Times are nanoseconds,
 *      DW_FOREVER has no end. Texts end in a zero and are UTF-8.
 *  (6) What is passed in is borrowed for the call. Buffers are the caller's,
 *      and an asynchronous operation uses them until it has ended; its tensor
 *      structs may go at once.
 *  (7) Operations with `work`: NULL waits for the end, else the operation is
 *      only begun. With a batch in the options, it is recorded there.
 *  (8) Nothing is thrown across this border, in either direction: what a
 *      callback throws is caught. A callback may call all functions here.
 *  (9) Names are those of operations.h, groups.h and objects.h, where the
 *      meaning, the errors and the in-place rules stand; one tensor of their
 *      forms with a single one is passed twice here.
 * (10) Functions and fields are only added. A program that was built with an
 *      older header of the same major version keeps working.
 *
 * Threads: any function from any thread, as its counterpart there. */
#ifndef DISTWRAP_C_H_
#define DISTWRAP_C_H_

#include "distwrap/c_types.h"
#include "distwrap/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ---- */

/* The fields of an error. */
DISTWRAP_EXPORT int32_t distwrap_error_read(distwrap_error error,
                                            distwrap_error_info* info);
/* All of it in one line; "" for none. */
DISTWRAP_EXPORT const char* distwrap_error_text(distwrap_error error);
/* DW_REASON_*; DW_REASON_NONE for none. */
DISTWRAP_EXPORT int32_t distwrap_error_reason(distwrap_error error);
DISTWRAP_EXPORT int32_t distwrap_error_free(distwrap_error error);

/* ---- start and end ---- */

/* = MPI_Init, ncclCommInitRank. Binds the session to this thread; `session` may
 * be NULL. */
DISTWRAP_EXPORT int32_t
distwrap_init_process_group(const distwrap_init_options* options,
                            distwrap_session* session, distwrap_error* error);
/* = MPI_Finalize, ncclCommDestroy. Ends a group with those split from it;
 * without one, the thread's session. */
DISTWRAP_EXPORT int32_t distwrap_destroy_process_group(distwrap_group group,
                                                       distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_is_initialized(void);
DISTWRAP_EXPORT int32_t distwrap_is_available(void);
/* Makes the thread use the session; NULL unbinds. */
DISTWRAP_EXPORT int32_t distwrap_bind_session(distwrap_session session,
                                              distwrap_error* error);
/* Drains until the timeout, then aborts what is left. */
DISTWRAP_EXPORT int32_t distwrap_session_close(distwrap_session session,
                                               int64_t timeout,
                                               distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_session_free(distwrap_session session);
/* Writes down the last operations of this rank; one text, the file's path. A
 * NULL session is the thread's. */
DISTWRAP_EXPORT int32_t distwrap_save_recording(distwrap_session session,
                                                distwrap_list* list,
                                                distwrap_error* error);

/* ---- tensors ---- */

/* DW_DTYPE_* as DLPack writes it; all zero, which every call refuses, for
 * another number. */
DISTWRAP_EXPORT dw_dtype distwrap_dtype(int32_t dtype);
/* The tensor in another library's managed one, which stays the caller's and has
 * to outlive its uses. Refused: NULL, another major version than 1, flags,
 * element types and shapes that are not known, elements that are not aligned,
 * and a read-only tensor that is to be `writable`. */
DISTWRAP_EXPORT int32_t distwrap_tensor_of_dlpack(
    const distwrap_managed_tensor* managed, int32_t writable,
    const distwrap_tensor** tensor, distwrap_error* error);
/* A managed tensor for other libraries, with a shape of its own; its consumer
 * calls the deleter, which calls release(owner) unless that is NULL. */
DISTWRAP_EXPORT int32_t distwrap_dlpack_of_tensor(
    const distwrap_tensor* tensor, int32_t read_only, void* owner,
    void (*release)(void* owner), distwrap_managed_tensor** managed,
    distwrap_error* error);

/* ---- groups ---- */

/* The thread's world, as a handle. */
DISTWRAP_EXPORT int32_t distwrap_world(distwrap_group* group,
                                       distwrap_error* error);
/* = MPI_Comm_split, ncclCommSplit. The list that names the caller is its group;
 * none gives a NULL handle. */
DISTWRAP_EXPORT int32_t
distwrap_split_group(const distwrap_group_options* options,
                     distwrap_group* group, distwrap_error* error);
/* = MPI_Comm_split. A negative colour makes none. */
DISTWRAP_EXPORT int32_t distwrap_split_group_by_color(
    int64_t color, int64_t key, const distwrap_group_options* options,
    distwrap_group* group, distwrap_error* error);
/* = MPI_Comm_create_group. A rank outside gets a NULL handle. */
DISTWRAP_EXPORT int32_t
distwrap_new_group(const distwrap_group_options* options, distwrap_group* group,
                   distwrap_error* error);
/* = MPI_Abort, ncclCommAbort. Fails what is in flight and to come in the group
 * and in those split from it, on all members. */
DISTWRAP_EXPORT int32_t distwrap_abort(distwrap_group group,
                                       distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_group_free(distwrap_group group);

DISTWRAP_EXPORT int32_t distwrap_group_read(distwrap_group group,
                                            distwrap_group_info* info,
                                            distwrap_error* error);
/* NULL for the world. */
DISTWRAP_EXPORT int32_t distwrap_group_parent(distwrap_group group,
                                              distwrap_group* parent,
                                              distwrap_error* error);
/* Those that live, at most `capacity` of them; `count` is how many there are.
 */
DISTWRAP_EXPORT int32_t distwrap_group_children(distwrap_group group,
                                                distwrap_group* children,
                                                uint64_t capacity,
                                                uint64_t* count,
                                                distwrap_error* error);
/* "cpu:gloo" for each device. */
DISTWRAP_EXPORT int32_t distwrap_group_backends(distwrap_group group,
                                                distwrap_list* list,
                                                distwrap_error* error);
/* A pointer that the program hangs on a group. */
DISTWRAP_EXPORT int32_t distwrap_group_set_data(distwrap_group group,
                                                const char* key, void* data,
                                                distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_group_get_data(distwrap_group group,
                                                const char* key, void** data,
                                                distwrap_error* error);

/* The session's registry (group_registry.h): groups that it made are in it by
 * themselves, others come and go by these. */
DISTWRAP_EXPORT int32_t distwrap_register_group(distwrap_group group,
                                                const int32_t* ranks,
                                                uint64_t count,
                                                const char* description,
                                                distwrap_error* error);
/* Does nothing for a group that is not there. */
DISTWRAP_EXPORT int32_t distwrap_unregister_group(distwrap_group group,
                                                  distwrap_error* error);
/* The ranks of a registered group, at most `capacity`; `count` is how many. */
DISTWRAP_EXPORT int32_t distwrap_registered_ranks(distwrap_group group,
                                                  int32_t* ranks,
                                                  uint64_t capacity,
                                                  uint64_t* count,
                                                  distwrap_error* error);
/* One text. */
DISTWRAP_EXPORT int32_t distwrap_registered_description(distwrap_group group,
                                                        distwrap_list* list,
                                                        distwrap_error* error);
/* How many are there. */
DISTWRAP_EXPORT int32_t distwrap_registered_groups(uint64_t* count,
                                                   distwrap_error* error);

/* = MPI_Comm_rank, MPI_Comm_size. -1 without a session, or for a bad handle. */
DISTWRAP_EXPORT int32_t distwrap_get_rank(distwrap_group group);
DISTWRAP_EXPORT int32_t distwrap_get_world_size(distwrap_group group);
/* By rank of the group, at most `capacity`; `count` is the group's size. */
DISTWRAP_EXPORT int32_t distwrap_get_process_group_ranks(distwrap_group group,
                                                         int32_t* ranks,
                                                         uint64_t capacity,
                                                         uint64_t* count,
                                                         distwrap_error* error);
/* = MPI_Group_translate_ranks. */
DISTWRAP_EXPORT int32_t distwrap_get_group_rank(distwrap_group group,
                                                int32_t global_rank,
                                                int32_t* rank,
                                                distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_get_global_rank(distwrap_group group,
                                                 int32_t group_rank,
                                                 int32_t* rank,
                                                 distwrap_error* error);
/* One text. */
DISTWRAP_EXPORT int32_t distwrap_get_backend(distwrap_group group,
                                             distwrap_device device,
                                             distwrap_list* list,
                                             distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_set_timeout(distwrap_group group,
                                             int64_t timeout,
                                             distwrap_error* error);
/* "all_reduce u8 i8 f32": each operation with its element types; behind one
 * that reduces "all_reduce/sum u8 i8 f32", for each of its reductions. */
DISTWRAP_EXPORT int32_t distwrap_capabilities(distwrap_group group,
                                              distwrap_device device,
                                              distwrap_list* list,
                                              distwrap_error* error);
/* "cpu:gloo" for each device of a backend string. */
DISTWRAP_EXPORT int32_t distwrap_parse_backend(const char* text,
                                               distwrap_list* list,
                                               distwrap_error* error);

/* The way back: one text of the pairs {"cpu", "gloo"}. */
DISTWRAP_EXPORT int32_t distwrap_format_backend(const distwrap_pair* backends,
                                                uint64_t count,
                                                distwrap_list* list,
                                                distwrap_error* error);
/* For bindings with one argument for each numbering, of which one at most is
 * given (not NULL); `argument` is "src", "dst" or "peer". */
DISTWRAP_EXPORT int32_t distwrap_choose_peer(const int32_t* global_rank,
                                             const int32_t* group_rank,
                                             const char* argument,
                                             distwrap_peer* peer,
                                             distwrap_error* error);

/* ---- operations: one to all, all to one, all to all ---- */

/* = MPI_Barrier, - */
DISTWRAP_EXPORT int32_t distwrap_barrier(const distwrap_op_options* options,
                                         distwrap_work* work,
                                         distwrap_error* error);
/* Always waits, and says who is missing. = -, - */
DISTWRAP_EXPORT int32_t distwrap_monitored_barrier(
    const distwrap_op_options* options, distwrap_error* error);
/* `in` may be NULL but at src. = MPI_Bcast, ncclBroadcast */
DISTWRAP_EXPORT int32_t distwrap_broadcast(const distwrap_tensor* out,
                                           const distwrap_tensor* in,
                                           distwrap_peer src,
                                           const distwrap_op_options* options,
                                           distwrap_work* work,
                                           distwrap_error* error);
/* = MPI_Allreduce, ncclAllReduce */
DISTWRAP_EXPORT int32_t distwrap_all_reduce(const distwrap_tensor* out,
                                            const distwrap_tensor* in,
                                            int32_t reduction,
                                            const distwrap_op_options* options,
                                            distwrap_work* work,
                                            distwrap_error* error);
/* `out` may be NULL but at dst. = MPI_Reduce, ncclReduce */
DISTWRAP_EXPORT int32_t distwrap_reduce(const distwrap_tensor* out,
                                        const distwrap_tensor* in,
                                        distwrap_peer dst, int32_t reduction,
                                        const distwrap_op_options* options,
                                        distwrap_work* work,
                                        distwrap_error* error);
/* = MPI_Scan, MPI_Exscan; - */
DISTWRAP_EXPORT int32_t distwrap_scan(const distwrap_tensor* out,
                                      const distwrap_tensor* in,
                                      int32_t reduction,
                                      const distwrap_op_options* options,
                                      distwrap_work* work,
                                      distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_exscan(const distwrap_tensor* out,
                                        const distwrap_tensor* in,
                                        int32_t reduction,
                                        const distwrap_op_options* options,
                                        distwrap_work* work,
                                        distwrap_error* error);

/* ---- operations: gathering ---- */

/* A list has one tensor for each rank. = MPI_Allgatherv, - */
DISTWRAP_EXPORT int32_t distwrap_all_gather(const distwrap_tensor* const* outs,
                                            uint64_t outs_count,
                                            const distwrap_tensor* in,
                                            const distwrap_op_options* options,
                                            distwrap_work* work,
                                            distwrap_error* error);
/* = MPI_Allgather, ncclAllGather */
DISTWRAP_EXPORT int32_t distwrap_all_gather_into_tensor(
    const distwrap_tensor* out, const distwrap_tensor* in,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* counts: rows of each rank. = MPI_Allgatherv, - */
DISTWRAP_EXPORT int32_t
distwrap_all_gather_v(const distwrap_tensor* out, const distwrap_tensor* in,
                      const int64_t* counts, uint64_t counts_count,
                      const distwrap_op_options* options, distwrap_work* work,
                      distwrap_error* error);
/* `outs` may be NULL but at dst; nobody is rank 0. = MPI_Gatherv, ncclGather */
DISTWRAP_EXPORT int32_t distwrap_gather(const distwrap_tensor* const* outs,
                                        uint64_t outs_count,
                                        const distwrap_tensor* in,
                                        distwrap_peer dst,
                                        const distwrap_op_options* options,
                                        distwrap_work* work,
                                        distwrap_error* error);
/* NULL counts: equal parts. = MPI_Gather, MPI_Gatherv; ncclGather */
DISTWRAP_EXPORT int32_t distwrap_gather_into_tensor(
    const distwrap_tensor* out, const distwrap_tensor* in, distwrap_peer dst,
    const int64_t* counts, uint64_t counts_count,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);

/* ---- operations: scattering ---- */

/* `ins` may be NULL but at src; nobody is rank 0. = MPI_Scatterv, ncclScatter
 */
DISTWRAP_EXPORT int32_t distwrap_scatter(const distwrap_tensor* out,
                                         const distwrap_tensor* const* ins,
                                         uint64_t ins_count, distwrap_peer src,
                                         const distwrap_op_options* options,
                                         distwrap_work* work,
                                         distwrap_error* error);
/* NULL counts: equal parts. = MPI_Scatter, MPI_Scatterv; ncclScatter */
DISTWRAP_EXPORT int32_t distwrap_scatter_tensor(
    const distwrap_tensor* out, const distwrap_tensor* in, distwrap_peer src,
    const int64_t* counts, uint64_t counts_count,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* = MPI_Reduce_scatter, - */
DISTWRAP_EXPORT int32_t distwrap_reduce_scatter(
    const distwrap_tensor* out, const distwrap_tensor* const* ins,
    uint64_t ins_count, int32_t reduction, const distwrap_op_options* options,
    distwrap_work* work, distwrap_error* error);
/* = MPI_Reduce_scatter_block, ncclReduceScatter */
DISTWRAP_EXPORT int32_t distwrap_reduce_scatter_tensor(
    const distwrap_tensor* out, const distwrap_tensor* in, int32_t reduction,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* = MPI_Reduce_scatter, - */
DISTWRAP_EXPORT int32_t
distwrap_reduce_scatter_v(const distwrap_tensor* out, const distwrap_tensor* in,
                          const int64_t* counts, uint64_t counts_count,
                          int32_t reduction, const distwrap_op_options* options,
                          distwrap_work* work, distwrap_error* error);
/* No backend has it yet. = -, - */
DISTWRAP_EXPORT int32_t distwrap_reduce_scatter_quantized(
    const distwrap_tensor* out, const distwrap_tensor* in, int32_t reduction,
    int64_t seed, const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);

/* ---- operations: exchanging ---- */

/* = MPI_Alltoallw, - */
DISTWRAP_EXPORT int32_t distwrap_all_to_all(const distwrap_tensor* const* outs,
                                            uint64_t outs_count,
                                            const distwrap_tensor* const* ins,
                                            uint64_t ins_count,
                                            const distwrap_op_options* options,
                                            distwrap_work* work,
                                            distwrap_error* error);
/* NULL splits: equal parts. = MPI_Alltoall, MPI_Alltoallv; ncclAlltoAll */
DISTWRAP_EXPORT int32_t distwrap_all_to_all_single(
    const distwrap_tensor* out, const distwrap_tensor* in,
    const int64_t* out_splits, uint64_t out_splits_count,
    const int64_t* in_splits, uint64_t in_splits_count,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);

/* ---- operations: point to point ---- */

/* = MPI_Send, ncclSend */
DISTWRAP_EXPORT int32_t distwrap_send(const distwrap_tensor* tensor,
                                      distwrap_peer dst, int64_t tag,
                                      const distwrap_op_options* options,
                                      distwrap_error* error);
/* `source`, a rank of the world, may be NULL. = MPI_Recv, ncclRecv */
DISTWRAP_EXPORT int32_t distwrap_recv(const distwrap_tensor* tensor,
                                      distwrap_peer src, int64_t tag,
                                      const distwrap_op_options* options,
                                      int32_t* source, distwrap_error* error);
/* Begun only: `work` is not NULL. = MPI_Isend, MPI_Irecv; ncclSend, ncclRecv */
DISTWRAP_EXPORT int32_t distwrap_isend(const distwrap_tensor* tensor,
                                       distwrap_peer dst, int64_t tag,
                                       const distwrap_op_options* options,
                                       distwrap_work* work,
                                       distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_irecv(const distwrap_tensor* tensor,
                                       distwrap_peer src, int64_t tag,
                                       const distwrap_op_options* options,
                                       distwrap_work* work,
                                       distwrap_error* error);
/* One work for each message, in order. = -; ncclGroupStart, ncclGroupEnd */
DISTWRAP_EXPORT int32_t
distwrap_batch_isend_irecv(const distwrap_p2p_op* ops, uint64_t count,
                           const distwrap_op_options* options,
                           distwrap_work* works, distwrap_error* error);

/* ---- batches ---- */

/* = ncclGroupStart, ncclGroupEnd. Operations with it in their options are
 * recorded, numbered from 0; `submit` starts all as one. A bad one shows in
 * `submit`, which names it and starts nothing. */
DISTWRAP_EXPORT int32_t distwrap_batch_create(distwrap_batch* batch,
                                              distwrap_error* error);
/* Operations that are recorded from now on and name no group are this one's;
 * NULL: the world's again. */
DISTWRAP_EXPORT int32_t distwrap_batch_on(distwrap_batch batch,
                                          distwrap_group group,
                                          distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_batch_submit(distwrap_batch batch,
                                              distwrap_work* work,
                                              distwrap_error* error);
/* One operation of a batch that was submitted. */
DISTWRAP_EXPORT int32_t distwrap_batch_item(distwrap_batch batch, int32_t item,
                                            distwrap_work* work,
                                            distwrap_error* error);
/* Recorded operations; -1 for a bad handle. */
DISTWRAP_EXPORT int32_t distwrap_batch_size(distwrap_batch batch);
DISTWRAP_EXPORT int32_t distwrap_batch_free(distwrap_batch batch);

/* ---- work: operations that were begun ---- */

/* The operation's error, or DW_REASON_WAIT_EXPIRED: it goes on. = MPI_Wait */
DISTWRAP_EXPORT int32_t distwrap_work_wait(distwrap_work work, int64_t timeout,
                                           distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_work_wait_stream(distwrap_work work,
                                                  const dw_stream* stream,
                                                  distwrap_error* error);
/* Whether it has ended, well or not. = MPI_Test */
DISTWRAP_EXPORT int32_t distwrap_work_test(distwrap_work work, int32_t* ended,
                                           distwrap_error* error);
/* DW_WORK_*. */
DISTWRAP_EXPORT int32_t distwrap_work_state(distwrap_work work, int32_t* state,
                                            distwrap_error* error);
/* DW_OK while it runs and when it is done, else its error. */
DISTWRAP_EXPORT int32_t distwrap_work_status(distwrap_work work,
                                             distwrap_error* error);
/* Number among the group's collectives; 0 for others. */
DISTWRAP_EXPORT int32_t distwrap_work_seq(distwrap_work work, uint64_t* seq,
                                          distwrap_error* error);
/* Its outputs, at most `capacity`; `count` is how many there are. */
DISTWRAP_EXPORT int32_t distwrap_work_result(distwrap_work work,
                                             distwrap_output* outputs,
                                             uint64_t capacity, uint64_t* count,
                                             distwrap_error* error);
/* Calls once when it has ended: in this thread when it has ended already, else
 * in one of the session's. What the callback throws in this thread is this
 * call's error; in the other it is logged. */
DISTWRAP_EXPORT int32_t distwrap_work_on_done(distwrap_work work,
                                              distwrap_callback callback,
                                              void* user,
                                              distwrap_error* error);
/* For poll(2), not to be read or closed; open as long as a handle of the work.
 */
DISTWRAP_EXPORT int32_t distwrap_work_event_fd(distwrap_work work, int32_t* fd,
                                               distwrap_error* error);
/* = MPI_Cancel */
DISTWRAP_EXPORT int32_t distwrap_work_cancel(distwrap_work work,
                                             distwrap_error* error);
/* One that ends when all of them have. */
DISTWRAP_EXPORT int32_t distwrap_work_all(const distwrap_work* works,
                                          uint64_t count, distwrap_work* all,
                                          distwrap_error* error);
/* = MPI_Request_free: the operation goes on. */
DISTWRAP_EXPORT int32_t distwrap_work_free(distwrap_work work);
/* = MPI_Waitany, MPI_Waitall */
DISTWRAP_EXPORT int32_t distwrap_wait_any(const distwrap_work* works,
                                          uint64_t count, int64_t timeout,
                                          uint64_t* index,
                                          distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_wait_all(const distwrap_work* works,
                                          uint64_t count, int64_t timeout,
                                          distwrap_error* error);

/* ---- hooks ---- */

/* Shows a group's calls from now on. = PMPI, ncclProfiler */
DISTWRAP_EXPORT int32_t distwrap_add_hook(distwrap_group group,
                                          const distwrap_hooks* hooks,
                                          distwrap_hook* hook,
                                          distwrap_error* error);
/* Removes it: returns when it runs in no other thread. */
DISTWRAP_EXPORT int32_t distwrap_hook_free(distwrap_hook hook);

/* ---- memory (memory.h) ---- */

/* What a group's backend for a device allocates, and where: whole pages, zero
 * at first; get_mem_allocator and allocate in one. DW_UNIMPLEMENTED where the
 * backend has none. = MPI_Alloc_mem, ncclMemAlloc */
DISTWRAP_EXPORT int32_t distwrap_mem_alloc(distwrap_group group,
                                           distwrap_device device,
                                           int64_t bytes,
                                           distwrap_memory* memory, void** data,
                                           distwrap_error* error);
/* Tells the backend of memory from elsewhere, which has to outlive the handle.
 * DW_UNIMPLEMENTED where it makes nothing of it. = ncclCommRegister */
DISTWRAP_EXPORT int32_t distwrap_register_mem_pool(distwrap_group group,
                                                   distwrap_device device,
                                                   void* pool, int64_t bytes,
                                                   distwrap_memory* memory,
                                                   distwrap_error* error);
/* Gives it back and frees the handle. DW_INVALID_ARGUMENT while an operation
 * or a window has it, which changes nothing.
 * = MPI_Free_mem, ncclMemFree, ncclCommDeregister */
DISTWRAP_EXPORT int32_t distwrap_mem_free(distwrap_memory memory,
                                          distwrap_error* error);

/* ---- windows (window.h) ----
 *
 * Offsets are elements of the target's part. Signals are set or added to
 * (DW_SIGNAL_SET, DW_SIGNAL_ADD) and compared by DW_COMPARE_*. The options name
 * no group and no batch. */

/* = MPI_Win_create, MPI_Win_allocate. Collective. */
DISTWRAP_EXPORT int32_t
distwrap_new_window(const distwrap_window_options* options,
                    distwrap_window* window, distwrap_error* error);
/* = MPI_Win_free. Collective; 0: the group's timeout. */
DISTWRAP_EXPORT int32_t distwrap_window_destroy(distwrap_window window,
                                                int64_t timeout,
                                                distwrap_error* error);
/* The handle alone: the window lives until it is destroyed, or its group. */
DISTWRAP_EXPORT int32_t distwrap_window_free(distwrap_window window);
/* This rank's part. */
DISTWRAP_EXPORT int32_t distwrap_window_memory(distwrap_window window,
                                               distwrap_output* memory,
                                               distwrap_error* error);
/* A rank's part in this rank's memory. = MPI_Win_shared_query */
DISTWRAP_EXPORT int32_t distwrap_window_map_remote(distwrap_window window,
                                                   distwrap_peer target,
                                                   distwrap_output* memory,
                                                   distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_window_get_attr(distwrap_window window,
                                                 distwrap_peer target,
                                                 distwrap_window_attr* info,
                                                 distwrap_error* error);
/* = MPI_Put, MPI_Get */
DISTWRAP_EXPORT int32_t distwrap_window_put(
    distwrap_window window, const distwrap_tensor* src, distwrap_peer target,
    int64_t offset, const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_window_get(
    distwrap_window window, const distwrap_tensor* dst, distwrap_peer target,
    int64_t offset, const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* = ncclPutSignal */
DISTWRAP_EXPORT int32_t distwrap_window_put_signal(
    distwrap_window window, const distwrap_tensor* src, distwrap_peer target,
    int64_t offset, int64_t signal, uint64_t value, int32_t how,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* = ncclSignal */
DISTWRAP_EXPORT int32_t distwrap_window_signal(
    distwrap_window window, distwrap_peer target, int64_t signal,
    uint64_t value, int32_t how, const distwrap_op_options* options,
    distwrap_work* work, distwrap_error* error);
/* = ncclWaitSignal */
DISTWRAP_EXPORT int32_t distwrap_window_wait_signal(
    distwrap_window window, int64_t signal, int32_t compare, uint64_t value,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* Of the pair's counter; a wait consumes one. */
DISTWRAP_EXPORT int32_t
distwrap_window_signal_pair(distwrap_window window, distwrap_peer target,
                            const distwrap_op_options* options,
                            distwrap_work* work, distwrap_error* error);
DISTWRAP_EXPORT int32_t
distwrap_window_wait_pair(distwrap_window window, distwrap_peer from,
                          const distwrap_op_options* options,
                          distwrap_work* work, distwrap_error* error);
/* = MPI_Accumulate */
DISTWRAP_EXPORT int32_t distwrap_window_accumulate(
    distwrap_window window, const distwrap_tensor* src, distwrap_peer target,
    int64_t offset, int32_t reduction, const distwrap_op_options* options,
    distwrap_work* work, distwrap_error* error);
/* = MPI_Get_accumulate, MPI_Fetch_and_op. `old` gets what stood there. */
DISTWRAP_EXPORT int32_t distwrap_window_fetch_op(
    distwrap_window window, const distwrap_tensor* old,
    const distwrap_tensor* src, distwrap_peer target, int64_t offset,
    int32_t reduction, const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* = MPI_Compare_and_swap. Two elements in, one out. */
DISTWRAP_EXPORT int32_t distwrap_window_compare_swap(
    distwrap_window window, const distwrap_tensor* old,
    const distwrap_tensor* expected_desired, distwrap_peer target,
    int64_t offset, const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* = MPI_Win_flush; of no target: of all. */
DISTWRAP_EXPORT int32_t
distwrap_window_flush(distwrap_window window, distwrap_peer target,
                      const distwrap_op_options* options, distwrap_work* work,
                      distwrap_error* error);
/* Order, without waiting. */
DISTWRAP_EXPORT int32_t distwrap_window_fence(
    distwrap_window window, const distwrap_op_options* options,
    distwrap_work* work, distwrap_error* error);

/* ---- objects: bytes of any size (DW_OBJECT_*) ----
 *
 * All of them wait. `list` gets the objects and may be NULL. */

DISTWRAP_EXPORT int32_t
distwrap_all_gather_object(const distwrap_bytes* object, int32_t encoding,
                           const distwrap_op_options* options,
                           distwrap_list* list, distwrap_error* error);
DISTWRAP_EXPORT int32_t
distwrap_gather_object(const distwrap_bytes* object, int32_t encoding,
                       distwrap_peer dst, const distwrap_op_options* options,
                       distwrap_list* list, distwrap_error* error);
/* `count` objects on all ranks; `objects` may be NULL but at src. */
DISTWRAP_EXPORT int32_t distwrap_broadcast_object_list(
    const distwrap_bytes* objects, uint64_t count, int32_t encoding,
    distwrap_peer src, const distwrap_op_options* options, distwrap_list* list,
    distwrap_error* error);
/* One object for each rank at src, none elsewhere; `list` gets one. */
DISTWRAP_EXPORT int32_t distwrap_scatter_object_list(
    const distwrap_bytes* objects, uint64_t count, int32_t encoding,
    distwrap_peer src, const distwrap_op_options* options, distwrap_list* list,
    distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_send_object_list(
    const distwrap_bytes* objects, uint64_t count, int32_t encoding,
    distwrap_peer dst, const distwrap_op_options* options,
    distwrap_error* error);
DISTWRAP_EXPORT int32_t
distwrap_recv_object_list(uint64_t count, int32_t encoding, distwrap_peer src,
                          const distwrap_op_options* options,
                          distwrap_list* list, distwrap_error* error);

/* Has extensions of this name (docs/objects.md) that other ranks send looked at
 * before they are given out: a code that is not DW_OK refuses the message. On
 * every rank, before the name is first used, once, and for the process; 64
 * names at most. */
DISTWRAP_EXPORT int32_t
distwrap_register_object_type(const char* name, distwrap_object_check check,
                              void* user, distwrap_error* error);

/* ---- lists of texts or bytes that calls give out ---- */

/* 0 for a bad handle. */
DISTWRAP_EXPORT uint64_t distwrap_list_size(distwrap_list list);
/* As long as the list lives; a zero stands behind the last byte. */
DISTWRAP_EXPORT int32_t distwrap_list_item(distwrap_list list, uint64_t index,
                                           distwrap_bytes* item,
                                           distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_list_free(distwrap_list list);

/* ---- the store in which ranks meet (store.h) ---- */

/* For ranks that are threads of this process. */
DISTWRAP_EXPORT int32_t distwrap_store_in_memory(distwrap_store* store,
                                                 distwrap_error* error);
/* "unix:/path/of/socket". */
DISTWRAP_EXPORT int32_t distwrap_store_connect(const char* address,
                                               int64_t timeout,
                                               distwrap_store* store,
                                               distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_store_free(distwrap_store store);
DISTWRAP_EXPORT int32_t distwrap_store_set(distwrap_store store,
                                           const char* key,
                                           const distwrap_bytes* value,
                                           int64_t timeout,
                                           distwrap_error* error);
/* Waits until all keys exist; their values, in order. */
DISTWRAP_EXPORT int32_t distwrap_store_get(distwrap_store store,
                                           const char* const* keys,
                                           uint64_t count, int64_t timeout,
                                           distwrap_list* list,
                                           distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_store_wait(distwrap_store store,
                                            const char* const* keys,
                                            uint64_t count, int64_t timeout,
                                            distwrap_error* error);
/* `sum`, the new value, may be NULL. */
DISTWRAP_EXPORT int32_t distwrap_store_add(distwrap_store store,
                                           const char* key, int64_t delta,
                                           int64_t timeout, int64_t* sum,
                                           distwrap_error* error);
/* `list` gets the value after the call, and may be NULL. */
DISTWRAP_EXPORT int32_t distwrap_store_compare_set(
    distwrap_store store, const char* key, const distwrap_bytes* expected,
    const distwrap_bytes* desired, int64_t timeout, distwrap_list* list,
    distwrap_error* error);
/* `existed` may be NULL. */
DISTWRAP_EXPORT int32_t distwrap_store_delete_key(distwrap_store store,
                                                  const char* key,
                                                  int64_t timeout,
                                                  int32_t* existed,
                                                  distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_store_address(distwrap_store store,
                                               distwrap_list* list,
                                               distwrap_error* error);

#ifdef __cplusplus
}
#endif

#endif /* DISTWRAP_C_H_ */
