/* The C API: all of the facade, for programs in C and for bindings of other
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
 *      argument receives the error. Every call writes it: NULL after success,
 *      otherwise a handle that the caller frees. The argument itself may be
 *      NULL. No "last error" of a thread or process exists.
 *  (2) Handles are opaque and are not addresses: a handle that was freed, or
 *      that is of another kind, is refused with DW_INVALID_ARGUMENT. A NULL
 *      group is the world. The caller frees each handle that a function gives
 *      out once, by distwrap_<kind>_free, which ends no operation or group.
 *      Freeing NULL is allowed.
 *  (3) Results come before `error`, as pointers. A call that fails sets result
 *      handles to NULL. A result `list` holds texts or bytes, which
 *      distwrap_list_item reads.
 *  (4) Structs that can grow begin with `struct_size`, which the caller sets to
 *      the sizeof of the struct. Zero in any other field is the usual value. A
 *      NULL pointer to options means that all fields are zero.
 *  (5) Integers have a fixed width; truth is 0 or 1. Times are nanoseconds;
 *      DW_FOREVER means no limit. Texts are UTF-8 and end in a zero byte.
 *  (6) Arguments are borrowed for the call. Buffers stay the caller's, and an
 *      asynchronous operation uses them until it has ended; its tensor structs
 *      may be freed after the call.
 *  (7) An operation whose `work` is NULL waits for the end; otherwise the call
 *      only starts it. With a batch in the options the call is recorded there.
 *  (8) No exception crosses this border, in either direction: the library
 *      catches the exceptions of callbacks. A callback may call every function
 *      of this header.
 *  (9) The names are those of operations.h, groups.h and objects.h, which
 *      document meaning, errors and in-place rules. A form with a single tensor
 *      there takes the same tensor twice here.
 * (10) Functions and fields are only added. A program that was built with an
 *      older header of the same major version keeps working.
 * (11) A comment that ends in "= A, B" names the functions of MPI and NCCL that
 *      do the same; "-" means that there is none.
 *
 * Threads: any function from any thread, as the C++ function of the same name.
 */
#ifndef DISTWRAP_C_H_
#define DISTWRAP_C_H_

#include "distwrap/c_types.h"
#include "distwrap/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ---- */

/* Reads the fields of an error. */
DISTWRAP_EXPORT int32_t distwrap_error_read(distwrap_error error,
                                            distwrap_error_info* info);
/* The whole error in one line; "" for NULL. */
DISTWRAP_EXPORT const char* distwrap_error_text(distwrap_error error);
/* The DW_REASON_* of an error; DW_REASON_NONE for NULL. */
DISTWRAP_EXPORT int32_t distwrap_error_reason(distwrap_error error);
/* Frees an error; its texts are gone as well. */
DISTWRAP_EXPORT int32_t distwrap_error_free(distwrap_error error);

/* ---- start and end ---- */

/* The version of the library, such as "0.1.0". A process that has loaded two
 * versions cannot start: the error names both files. */
DISTWRAP_EXPORT const char* distwrap_version(void);

/* = MPI_Init, ncclCommInitRank. Binds the session to this thread. `session`
 * may be NULL. */
DISTWRAP_EXPORT int32_t
distwrap_init_process_group(const distwrap_init_options* options,
                            distwrap_session* session, distwrap_error* error);
/* Joins a job as init_process_group does, for a part of a program that keeps
 * to itself: no thread is bound, and calls that name no group do not find this
 * session. Ended by distwrap_session_close. */
DISTWRAP_EXPORT int32_t
distwrap_session_create(const distwrap_init_options* options,
                        distwrap_session* session, distwrap_error* error);
/* A handle of a session's world. */
DISTWRAP_EXPORT int32_t distwrap_session_world(distwrap_session session,
                                               distwrap_group* group,
                                               distwrap_error* error);
/* A handle of the store through which the session's ranks met (session.h). */
DISTWRAP_EXPORT int32_t distwrap_session_store(distwrap_session session,
                                               distwrap_store* store,
                                               distwrap_error* error);
/* 1 until the session is closed, by whichever call; 0 for a bad handle. */
DISTWRAP_EXPORT int32_t distwrap_session_is_open(distwrap_session session);
/* The session's wish of the guard, DW_GUARD_OFF and so on; DW_GUARD_OFF for a
 * closed one, in the child of a fork, and for a bad handle. */
DISTWRAP_EXPORT int32_t distwrap_session_guard(distwrap_session session);
/* = MPI_Finalize, ncclCommDestroy. Ends a group and the groups split from it,
 * from any thread; the world of a session that init_process_group started ends
 * that session. A NULL group is the world of the thread's session.
 * DW_DEADLINE_EXCEEDED when a backend cannot end its part yet, as NCCL while a
 * captured graph is left; the group has ended nevertheless. */
DISTWRAP_EXPORT int32_t distwrap_destroy_process_group(distwrap_group group,
                                                       distwrap_error* error);
/* Whether calls of this thread that name no group find a session. */
DISTWRAP_EXPORT int32_t distwrap_is_initialized(void);
/* Whether this library can communicate on this machine: always 1. */
DISTWRAP_EXPORT int32_t distwrap_is_available(void);
/* Makes the calling thread use the session; NULL unbinds the thread. */
DISTWRAP_EXPORT int32_t distwrap_bind_session(distwrap_session session,
                                              distwrap_error* error);
/* Closes a session, and ends its groups. Operations in flight may finish until
 * the timeout; the rest is aborted. */
DISTWRAP_EXPORT int32_t distwrap_session_close(distwrap_session session,
                                               int64_t timeout,
                                               distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_session_free(distwrap_session session);
/* Writes the last operations of this rank to a file; `list` gets one text, the
 * path. A NULL session is the thread's. */
DISTWRAP_EXPORT int32_t distwrap_save_recording(distwrap_session session,
                                                distwrap_list* list,
                                                distwrap_error* error);

/* ---- calls of other communication libraries (guard.h) ----
 *
 * A session with a guard refuses calls that go past distwrap, such as
 * ncclAllReduce. These functions let some of them pass. */

/* Begin and end a part of this thread's work in which such calls pass. Parts
 * nest. distwrap_guard_status shows the reason. */
DISTWRAP_EXPORT int32_t distwrap_guard_enter(const char* reason,
                                             distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_guard_leave(distwrap_error* error);
/* Lets all calls pass that come from programs and libraries whose file names
 * begin with `prefix`. */
DISTWRAP_EXPORT int32_t distwrap_guard_exempt(const char* prefix,
                                              distwrap_error* error);
/* `list` gets texts: "mode block"; "door /path/of/the/library" when the library
 * that refuses calls of C is loaded; "guarded NCCL ncclSend distwrap_send" for
 * each function that it can refuse, with what to use in its place;
 * "refused 2 NCCL ncclSend distwrap_send" for each function that was called,
 * with the number of calls; "scope REASON" for each part that
 * distwrap_guard_enter has begun. */
DISTWRAP_EXPORT int32_t distwrap_guard_status(distwrap_list* list,
                                              distwrap_error* error);

/* ---- tensors ---- */

/* The element type DW_DTYPE_* as DLPack writes it: code, bits and lanes. An
 * unknown number gives all zeros, which every call refuses. */
DISTWRAP_EXPORT dw_dtype distwrap_dtype(int32_t dtype);
/* Makes a tensor of another library's managed tensor, without a copy. The
 * managed tensor stays the caller's and has to outlive the result. Refused are
 * NULL, a major version other than 1, unknown flags, element types and shapes,
 * elements that are not aligned, and a read-only tensor with `writable` set. */
DISTWRAP_EXPORT int32_t distwrap_tensor_of_dlpack(
    const distwrap_managed_tensor* managed, int32_t writable,
    const distwrap_tensor** tensor, distwrap_error* error);
/* Makes a managed tensor, with its own shape, for other libraries. The
 * consumer calls the deleter, which calls release(owner) unless `release` is
 * NULL. */
DISTWRAP_EXPORT int32_t distwrap_dlpack_of_tensor(
    const distwrap_tensor* tensor, int32_t read_only, void* owner,
    void (*release)(void* owner), distwrap_managed_tensor** managed,
    distwrap_error* error);

/* ---- groups ---- */

/* A handle of the thread's world. */
DISTWRAP_EXPORT int32_t distwrap_world(distwrap_group* group,
                                       distwrap_error* error);
/* The list that names the caller becomes its group; a rank in no list gets a
 * NULL handle. = MPI_Comm_split, ncclCommSplit */
DISTWRAP_EXPORT int32_t
distwrap_split_group(const distwrap_group_options* options,
                     distwrap_group* group, distwrap_error* error);
/* Ranks with equal colors become a group, ordered by key and then by rank. A
 * negative color gives a NULL handle. = MPI_Comm_split, ncclCommSplit */
DISTWRAP_EXPORT int32_t distwrap_split_group_by_color(
    int64_t color, int64_t key, const distwrap_group_options* options,
    distwrap_group* group, distwrap_error* error);
/* Makes a group of some ranks of the world. A rank outside of the group gets a
 * NULL handle. = MPI_Comm_create_group, - */
DISTWRAP_EXPORT int32_t
distwrap_new_group(const distwrap_group_options* options, distwrap_group* group,
                   distwrap_error* error);
/* = MPI_Abort, ncclCommAbort. Fails all present and future operations of the
 * group, and of the groups split from it, on all members. */
DISTWRAP_EXPORT int32_t distwrap_abort(distwrap_group group,
                                       distwrap_error* error);
/* Frees the handle; the group goes on until distwrap_destroy_process_group. */
DISTWRAP_EXPORT int32_t distwrap_group_free(distwrap_group group);

/* The name of a group, its size, this rank in it, and more. */
DISTWRAP_EXPORT int32_t distwrap_group_read(distwrap_group group,
                                            distwrap_group_info* info,
                                            distwrap_error* error);
/* The group from which this one was split; NULL for the world. */
DISTWRAP_EXPORT int32_t distwrap_group_parent(distwrap_group group,
                                              distwrap_group* parent,
                                              distwrap_error* error);
/* The groups split from this one that have not ended. Writes at most `capacity`
 * handles; `count` gets the number of groups. */
DISTWRAP_EXPORT int32_t distwrap_group_children(distwrap_group group,
                                                distwrap_group* children,
                                                uint64_t capacity,
                                                uint64_t* count,
                                                distwrap_error* error);
/* `list` gets one text for each device, such as "cpu:gloo". */
DISTWRAP_EXPORT int32_t distwrap_group_backends(distwrap_group group,
                                                distwrap_list* list,
                                                distwrap_error* error);
/* Attaches a pointer of the program to a registered group under a key. */
DISTWRAP_EXPORT int32_t distwrap_group_set_data(distwrap_group group,
                                                const char* key, void* data,
                                                distwrap_error* error);
/* Attaches data that the registry frees: `free_data(data)` is called once,
 * when the value is replaced, when the group leaves the registry, or at once
 * when the call fails. It may run in any thread and makes no call of distwrap.
 * = MPI_Comm_create_keyval with a delete function */
DISTWRAP_EXPORT int32_t distwrap_group_set_owned_data(
    distwrap_group group, const char* key, void* data,
    void (*free_data)(void* data), distwrap_error* error);
/* `data` gets the pointer under a key. An error when there is none. */
DISTWRAP_EXPORT int32_t distwrap_group_get_data(distwrap_group group,
                                                const char* key, void** data,
                                                distwrap_error* error);

/* The session's registry (group_registry.h). Groups that the session makes are
 * registered automatically; these functions add and remove others. */
DISTWRAP_EXPORT int32_t distwrap_register_group(distwrap_group group,
                                                const int32_t* ranks,
                                                uint64_t count,
                                                const char* description,
                                                distwrap_error* error);
/* Does nothing for a group that is not registered. */
DISTWRAP_EXPORT int32_t distwrap_unregister_group(distwrap_group group,
                                                  distwrap_error* error);
/* Writes at most `capacity` ranks of a registered group; `count` gets their
 * number. */
DISTWRAP_EXPORT int32_t distwrap_registered_ranks(distwrap_group group,
                                                  int32_t* ranks,
                                                  uint64_t capacity,
                                                  uint64_t* count,
                                                  distwrap_error* error);
/* `list` gets one text. */
DISTWRAP_EXPORT int32_t distwrap_registered_description(distwrap_group group,
                                                        distwrap_list* list,
                                                        distwrap_error* error);
/* Counts the registered groups. */
DISTWRAP_EXPORT int32_t distwrap_registered_groups(uint64_t* count,
                                                   distwrap_error* error);

/* This rank in a group; -1 without a session and for a bad handle.
 * = MPI_Comm_rank, ncclCommUserRank */
DISTWRAP_EXPORT int32_t distwrap_get_rank(distwrap_group group);
/* The number of ranks; -1 as above. = MPI_Comm_size, ncclCommCount */
DISTWRAP_EXPORT int32_t distwrap_get_world_size(distwrap_group group);
/* Writes at most `capacity` ranks of the world, by rank of the group; `count`
 * gets the group's size. */
DISTWRAP_EXPORT int32_t distwrap_get_process_group_ranks(distwrap_group group,
                                                         int32_t* ranks,
                                                         uint64_t capacity,
                                                         uint64_t* count,
                                                         distwrap_error* error);
/* The rank in a group of a rank of the world, and the reverse.
 * = MPI_Group_translate_ranks, - */
DISTWRAP_EXPORT int32_t distwrap_get_group_rank(distwrap_group group,
                                                int32_t global_rank,
                                                int32_t* rank,
                                                distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_get_global_rank(distwrap_group group,
                                                 int32_t group_rank,
                                                 int32_t* rank,
                                                 distwrap_error* error);
/* `list` gets one text, the name of the backend. */
DISTWRAP_EXPORT int32_t distwrap_get_backend(distwrap_group group,
                                             distwrap_device device,
                                             distwrap_list* list,
                                             distwrap_error* error);
/* Sets the limit of later operations that have none of their own. */
DISTWRAP_EXPORT int32_t distwrap_set_timeout(distwrap_group group,
                                             int64_t timeout,
                                             distwrap_error* error);
/* `list` gets one text for each operation with its element types, such as
 * "all_reduce u8 i8 f32". A text like "all_reduce/sum u8 i8 f32" follows for
 * each reduction of the operation. */
DISTWRAP_EXPORT int32_t distwrap_capabilities(distwrap_group group,
                                              distwrap_device device,
                                              distwrap_list* list,
                                              distwrap_error* error);
/* `list` gets one text for each device of a backend string, such as
 * "cpu:gloo". */
DISTWRAP_EXPORT int32_t distwrap_parse_backend(const char* text,
                                               distwrap_list* list,
                                               distwrap_error* error);

/* The reverse of distwrap_parse_backend: `list` gets one text, made of pairs
 * such as {"cpu", "gloo"}. */
DISTWRAP_EXPORT int32_t distwrap_format_backend(const distwrap_pair* backends,
                                                uint64_t count,
                                                distwrap_list* list,
                                                distwrap_error* error);
/* Makes the peer of two arguments as torch.distributed has them, such as `src`
 * and `group_src`. At most one of them may be given (not NULL). `argument` is
 * "src", "dst" or "peer", for the error. */
DISTWRAP_EXPORT int32_t distwrap_choose_peer(const int32_t* global_rank,
                                             const int32_t* group_rank,
                                             const char* argument,
                                             distwrap_peer* peer,
                                             distwrap_error* error);

/* ---- operations: one to all, all to one, all to all ---- */

/* Waits until all ranks have entered. = MPI_Barrier, - */
DISTWRAP_EXPORT int32_t distwrap_barrier(const distwrap_op_options* options,
                                         distwrap_work* work,
                                         distwrap_error* error);
/* A barrier whose error names the ranks that did not come, on every rank that
 * waits. There is no work: the call always waits. = -, - */
DISTWRAP_EXPORT int32_t distwrap_monitored_barrier(
    const distwrap_op_options* options, distwrap_error* error);
/* The elements of src to all ranks; `in` is needed on src only.
 * = MPI_Bcast, ncclBroadcast */
DISTWRAP_EXPORT int32_t distwrap_broadcast(const distwrap_tensor* out,
                                           const distwrap_tensor* in,
                                           distwrap_peer src,
                                           const distwrap_op_options* options,
                                           distwrap_work* work,
                                           distwrap_error* error);
/* A reduction (DW_REDUCE_*) over all ranks, for all ranks.
 * = MPI_Allreduce, ncclAllReduce */
DISTWRAP_EXPORT int32_t distwrap_all_reduce(const distwrap_tensor* out,
                                            const distwrap_tensor* in,
                                            int32_t reduction,
                                            const distwrap_op_options* options,
                                            distwrap_work* work,
                                            distwrap_error* error);
/* A reduction over all ranks, for dst; `out` is needed there only.
 * = MPI_Reduce, ncclReduce */
DISTWRAP_EXPORT int32_t distwrap_reduce(const distwrap_tensor* out,
                                        const distwrap_tensor* in,
                                        distwrap_peer dst, int32_t reduction,
                                        const distwrap_op_options* options,
                                        distwrap_work* work,
                                        distwrap_error* error);
/* A reduction over the ranks up to this one. distwrap_exscan leaves out this
 * rank's own elements. = MPI_Scan, MPI_Exscan; - */
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

/* The elements of every rank to all ranks. `outs` has one tensor for each rank.
 * = MPI_Allgatherv, - */
DISTWRAP_EXPORT int32_t distwrap_all_gather(const distwrap_tensor* const* outs,
                                            uint64_t outs_count,
                                            const distwrap_tensor* in,
                                            const distwrap_op_options* options,
                                            distwrap_work* work,
                                            distwrap_error* error);
/* As all_gather, with one tensor for all parts, which are equally large.
 * = MPI_Allgather, ncclAllGather */
DISTWRAP_EXPORT int32_t distwrap_all_gather_into_tensor(
    const distwrap_tensor* out, const distwrap_tensor* in,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* With one tensor for all parts; `counts` has the rows of each rank's part.
 * = MPI_Allgatherv, - */
DISTWRAP_EXPORT int32_t
distwrap_all_gather_v(const distwrap_tensor* out, const distwrap_tensor* in,
                      const int64_t* counts, uint64_t counts_count,
                      const distwrap_op_options* options, distwrap_work* work,
                      distwrap_error* error);
/* The elements of every rank to dst; `outs` is needed there only, and an unset
 * dst is rank 0. = MPI_Gatherv, ncclGather */
DISTWRAP_EXPORT int32_t distwrap_gather(const distwrap_tensor* const* outs,
                                        uint64_t outs_count,
                                        const distwrap_tensor* in,
                                        distwrap_peer dst,
                                        const distwrap_op_options* options,
                                        distwrap_work* work,
                                        distwrap_error* error);
/* NULL counts mean equal parts. = MPI_Gather, MPI_Gatherv; ncclGather */
DISTWRAP_EXPORT int32_t distwrap_gather_into_tensor(
    const distwrap_tensor* out, const distwrap_tensor* in, distwrap_peer dst,
    const int64_t* counts, uint64_t counts_count,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);

/* ---- operations: scattering ---- */

/* One of the tensors of src to each rank; `ins` is needed there only, and an
 * unset src is rank 0. = MPI_Scatterv, ncclScatter */
DISTWRAP_EXPORT int32_t distwrap_scatter(const distwrap_tensor* out,
                                         const distwrap_tensor* const* ins,
                                         uint64_t ins_count, distwrap_peer src,
                                         const distwrap_op_options* options,
                                         distwrap_work* work,
                                         distwrap_error* error);
/* NULL counts mean equal parts. = MPI_Scatter, MPI_Scatterv; ncclScatter */
DISTWRAP_EXPORT int32_t distwrap_scatter_tensor(
    const distwrap_tensor* out, const distwrap_tensor* in, distwrap_peer src,
    const int64_t* counts, uint64_t counts_count,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* Reduces over all ranks what each gives for rank r, for rank r.
 * = MPI_Reduce_scatter, - */
DISTWRAP_EXPORT int32_t distwrap_reduce_scatter(
    const distwrap_tensor* out, const distwrap_tensor* const* ins,
    uint64_t ins_count, int32_t reduction, const distwrap_op_options* options,
    distwrap_work* work, distwrap_error* error);
/* With one tensor for all parts, which are equally large.
 * = MPI_Reduce_scatter_block, ncclReduceScatter */
DISTWRAP_EXPORT int32_t distwrap_reduce_scatter_tensor(
    const distwrap_tensor* out, const distwrap_tensor* in, int32_t reduction,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* With one tensor for all parts; `counts` has the rows of each rank's part.
 * = MPI_Reduce_scatter, - */
DISTWRAP_EXPORT int32_t
distwrap_reduce_scatter_v(const distwrap_tensor* out, const distwrap_tensor* in,
                          const int64_t* counts, uint64_t counts_count,
                          int32_t reduction, const distwrap_op_options* options,
                          distwrap_work* work, distwrap_error* error);

/* ---- operations: exchanging ---- */

/* One tensor from each rank to each rank. = MPI_Alltoallw, - */
DISTWRAP_EXPORT int32_t distwrap_all_to_all(const distwrap_tensor* const* outs,
                                            uint64_t outs_count,
                                            const distwrap_tensor* const* ins,
                                            uint64_t ins_count,
                                            const distwrap_op_options* options,
                                            distwrap_work* work,
                                            distwrap_error* error);
/* With one tensor for all parts. Splits have the rows of each part; NULL means
 * equal parts. = MPI_Alltoall, MPI_Alltoallv; ncclAlltoAll */
DISTWRAP_EXPORT int32_t distwrap_all_to_all_single(
    const distwrap_tensor* out, const distwrap_tensor* in,
    const int64_t* out_splits, uint64_t out_splits_count,
    const int64_t* in_splits, uint64_t in_splits_count,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);

/* ---- operations: point to point ---- */

/* Waits until the memory of `tensor` may be written again. Tags are 0 to
 * 2^31 - 1. = MPI_Send, ncclSend */
DISTWRAP_EXPORT int32_t distwrap_send(const distwrap_tensor* tensor,
                                      distwrap_peer dst, int64_t tag,
                                      const distwrap_op_options* options,
                                      distwrap_error* error);
/* Takes the oldest message of src with this tag. `source`, which may be NULL,
 * gets the sender's rank in the world. = MPI_Recv, ncclRecv */
DISTWRAP_EXPORT int32_t distwrap_recv(const distwrap_tensor* tensor,
                                      distwrap_peer src, int64_t tag,
                                      const distwrap_op_options* options,
                                      int32_t* source, distwrap_error* error);
/* Start a message, and do not wait: `work` must not be NULL.
 * = MPI_Isend, MPI_Irecv; ncclSend, ncclRecv */
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
/* Starts messages together. `works` gets one work for each, in order.
 * = -; ncclGroupStart, ncclGroupEnd */
DISTWRAP_EXPORT int32_t
distwrap_batch_isend_irecv(const distwrap_p2p_op* ops, uint64_t count,
                           const distwrap_op_options* options,
                           distwrap_work* works, distwrap_error* error);

/* ---- batches ---- */

/* A batch records the operations whose options name it and numbers them from 0;
 * distwrap_batch_submit starts all of them together. It also reports a bad item
 * by its number, and then starts nothing. = -; ncclGroupStart, ncclGroupEnd */
DISTWRAP_EXPORT int32_t distwrap_batch_create(distwrap_batch* batch,
                                              distwrap_error* error);
/* Sets the group of operations that are recorded from now on and name no
 * group; NULL sets the world again. */
DISTWRAP_EXPORT int32_t distwrap_batch_on(distwrap_batch batch,
                                          distwrap_group group,
                                          distwrap_error* error);
/* `work` gets one work for all items; NULL: waits for all of them. */
DISTWRAP_EXPORT int32_t distwrap_batch_submit(distwrap_batch batch,
                                              distwrap_work* work,
                                              distwrap_error* error);
/* The work of one item of a submitted batch. */
DISTWRAP_EXPORT int32_t distwrap_batch_item(distwrap_batch batch, int32_t item,
                                            distwrap_work* work,
                                            distwrap_error* error);
/* The number of recorded operations; -1 for a bad handle. */
DISTWRAP_EXPORT int32_t distwrap_batch_size(distwrap_batch batch);
DISTWRAP_EXPORT int32_t distwrap_batch_free(distwrap_batch batch);

/* ---- prepared operations (prepared_operation.h) ---- */

/* Takes the place of distwrap_batch_submit for a batch of one collective on
 * host memory, which is checked and compared across the ranks once, to be
 * started any number of times. All ranks of the group call, and all get an
 * error where one of them cannot or their calls differ; the group stays whole.
 * The buffers have to live as long as they are used by starts; the batch may be
 * freed. = MPI_Allreduce_init and its like, - */
DISTWRAP_EXPORT int32_t distwrap_batch_prepare(distwrap_batch batch,
                                               distwrap_prepared* prepared,
                                               distwrap_error* error);
/* Starts a prepared operation; all ranks call. With `out` and `in` NULL it uses
 * the buffers that it was prepared with, which no earlier start may use any
 * more (DW_INVALID_ARGUMENT). Else it uses these, which have as many contiguous
 * elements of the same type and lie in each other's place as the prepared ones:
 * the same tensor twice where it was prepared in place, NULL for one that this
 * rank has not. Of the options count `timeout`, which starts here, and `label`.
 * = MPI_Start, - */
DISTWRAP_EXPORT int32_t distwrap_prepared_start(
    distwrap_prepared prepared, const distwrap_tensor* out,
    const distwrap_tensor* in, const distwrap_op_options* options,
    distwrap_work* work, distwrap_error* error);
/* Frees the handle; a start that is under way goes on. = MPI_Request_free, - */
DISTWRAP_EXPORT int32_t distwrap_prepared_free(distwrap_prepared prepared);

/* ---- work: operations that were started ---- */

/* Waits for the end of the operation, and returns its error. When the timeout
 * passes first, the error is DW_REASON_WAIT_EXPIRED and the operation goes on.
 * = MPI_Wait, - */
DISTWRAP_EXPORT int32_t distwrap_work_wait(distwrap_work work, int64_t timeout,
                                           distwrap_error* error);
/* Makes a stream of the device wait for the operation; returns at once. */
DISTWRAP_EXPORT int32_t distwrap_work_wait_stream(distwrap_work work,
                                                  const dw_stream* stream,
                                                  distwrap_error* error);
/* `ended` gets 1 when the operation has ended, well or not; else 0.
 * = MPI_Test, - */
DISTWRAP_EXPORT int32_t distwrap_work_test(distwrap_work work, int32_t* ended,
                                           distwrap_error* error);
/* `state` gets DW_WORK_*. */
DISTWRAP_EXPORT int32_t distwrap_work_state(distwrap_work work, int32_t* state,
                                            distwrap_error* error);
/* DW_OK while the operation runs and when it is done; otherwise its error. */
DISTWRAP_EXPORT int32_t distwrap_work_status(distwrap_work work,
                                             distwrap_error* error);
/* The number among the group's collectives; 0 for other operations. */
DISTWRAP_EXPORT int32_t distwrap_work_seq(distwrap_work work, uint64_t* seq,
                                          distwrap_error* error);
/* Writes at most `capacity` outputs of the operation; `count` gets their
 * number. */
DISTWRAP_EXPORT int32_t distwrap_work_result(distwrap_work work,
                                             distwrap_output* outputs,
                                             uint64_t capacity, uint64_t* count,
                                             distwrap_error* error);
/* Calls `callback` once when the operation has ended: in this thread when it
 * has already ended, otherwise in a thread of the session. An exception of the
 * callback becomes this call's error in the first case and is logged in the
 * second. */
DISTWRAP_EXPORT int32_t distwrap_work_on_done(distwrap_work work,
                                              distwrap_callback callback,
                                              void* user,
                                              distwrap_error* error);
/* A file descriptor for poll(2). The caller must not read or close it; it
 * stays open as long as a handle of the work exists. */
DISTWRAP_EXPORT int32_t distwrap_work_event_fd(distwrap_work work, int32_t* fd,
                                               distwrap_error* error);
/* Takes back a queued operation that the backend does not have yet, which ends
 * as aborted. Otherwise DW_FAILED_PRECONDITION, and the operation goes on.
 * = MPI_Cancel, - */
DISTWRAP_EXPORT int32_t distwrap_work_cancel(distwrap_work work,
                                             distwrap_error* error);
/* One work that ends when all of `works` have ended. */
DISTWRAP_EXPORT int32_t distwrap_work_all(const distwrap_work* works,
                                          uint64_t count, distwrap_work* all,
                                          distwrap_error* error);
/* Frees the handle; the operation goes on. = MPI_Request_free, - */
DISTWRAP_EXPORT int32_t distwrap_work_free(distwrap_work work);
/* Waits until one of the works has ended; `index` gets its place.
 * = MPI_Waitany, - */
DISTWRAP_EXPORT int32_t distwrap_wait_any(const distwrap_work* works,
                                          uint64_t count, int64_t timeout,
                                          uint64_t* index,
                                          distwrap_error* error);
/* Waits until all have ended, and returns the first error. = MPI_Waitall, - */
DISTWRAP_EXPORT int32_t distwrap_wait_all(const distwrap_work* works,
                                          uint64_t count, int64_t timeout,
                                          distwrap_error* error);

/* ---- hooks ---- */

/* Adds a hook: functions of the program that are called at the begin and end of
 * each of the group's calls from now on, and may refuse the call.
 * = PMPI, ncclProfiler */
DISTWRAP_EXPORT int32_t distwrap_add_hook(distwrap_group group,
                                          const distwrap_hooks* hooks,
                                          distwrap_hook* hook,
                                          distwrap_error* error);
/* Removes the hook. Returns when the hook runs in no other thread. */
DISTWRAP_EXPORT int32_t distwrap_hook_free(distwrap_hook hook);

/* ---- memory (memory.h) ---- */

/* Allocates memory of a group's backend for a device, such as memory that the
 * ranks of a host share: whole pages, in host memory zero at first.
 * DW_UNIMPLEMENTED when the backend has no memory of its own.
 * = MPI_Alloc_mem, ncclMemAlloc */
DISTWRAP_EXPORT int32_t distwrap_mem_alloc(distwrap_group group,
                                           distwrap_device device,
                                           int64_t bytes,
                                           distwrap_memory* memory, void** data,
                                           distwrap_error* error);
/* Registers memory from elsewhere with the backend; the memory has to outlive
 * the handle. DW_UNIMPLEMENTED when the backend has no use for it.
 * = -, ncclCommRegister */
DISTWRAP_EXPORT int32_t distwrap_register_mem_pool(distwrap_group group,
                                                   distwrap_device device,
                                                   void* pool, int64_t bytes,
                                                   distwrap_memory* memory,
                                                   distwrap_error* error);
/* Frees the memory and the handle. DW_INVALID_ARGUMENT while an operation or a
 * window uses the memory, and then nothing changes.
 * = MPI_Free_mem, ncclMemFree, ncclCommDeregister */
DISTWRAP_EXPORT int32_t distwrap_mem_free(distwrap_memory memory,
                                          distwrap_error* error);

/* ---- windows (window.h) ----
 *
 * A window is memory of all ranks of a group that each of them can read and
 * write. Offsets count elements of the target's part. DW_SIGNAL_SET and
 * DW_SIGNAL_ADD say how a signal changes its slot; DW_COMPARE_* says how a wait
 * compares the slot. The options name no group and no batch. */

/* Makes a window; all ranks of the group call.
 * = MPI_Win_create, MPI_Win_allocate; ncclCommWindowRegister */
DISTWRAP_EXPORT int32_t
distwrap_new_window(const distwrap_window_options* options,
                    distwrap_window* window, distwrap_error* error);
/* Ends a window; all ranks of the group call. A timeout of 0 is the group's.
 * = MPI_Win_free, ncclCommWindowDeregister */
DISTWRAP_EXPORT int32_t distwrap_window_destroy(distwrap_window window,
                                                int64_t timeout,
                                                distwrap_error* error);
/* Frees the handle only: the window lives until window_destroy or until its
 * group ends. */
DISTWRAP_EXPORT int32_t distwrap_window_free(distwrap_window window);
/* This rank's part of the window. */
DISTWRAP_EXPORT int32_t distwrap_window_memory(distwrap_window window,
                                               distwrap_output* memory,
                                               distwrap_error* error);
/* Another rank's part, mapped into this process. DW_UNIMPLEMENTED where that is
 * not possible. = MPI_Win_shared_query, - */
DISTWRAP_EXPORT int32_t distwrap_window_map_remote(distwrap_window window,
                                                   distwrap_peer target,
                                                   distwrap_output* memory,
                                                   distwrap_error* error);
/* A rank's part of a window, mapped once more into this process: `memory` has
 * another address than the part itself and the same contents, and stays until
 * the handle is freed, also when the window, its group and its session have
 * ended. An unset target is this rank. DW_UNIMPLEMENTED when the part is not
 * mapped here or is memory that its rank brought. */
DISTWRAP_EXPORT int32_t distwrap_window_pages(distwrap_window window,
                                              distwrap_peer target,
                                              distwrap_pages* pages,
                                              distwrap_output* memory,
                                              distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_pages_free(distwrap_pages pages);
/* Size and element type of a rank's part, and whether it is mapped here. */
DISTWRAP_EXPORT int32_t distwrap_window_get_attr(distwrap_window window,
                                                 distwrap_peer target,
                                                 distwrap_window_attr* info,
                                                 distwrap_error* error);
/* Writes `src` into the target's part. = MPI_Put, - */
DISTWRAP_EXPORT int32_t distwrap_window_put(
    distwrap_window window, const distwrap_tensor* src, distwrap_peer target,
    int64_t offset, const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* Reads from the target's part into `dst`. = MPI_Get, - */
DISTWRAP_EXPORT int32_t distwrap_window_get(
    distwrap_window window, const distwrap_tensor* dst, distwrap_peer target,
    int64_t offset, const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* Writes, and raises a signal of the target when the data are there.
 * = -, ncclPutSignal */
DISTWRAP_EXPORT int32_t distwrap_window_put_signal(
    distwrap_window window, const distwrap_tensor* src, distwrap_peer target,
    int64_t offset, int64_t signal, uint64_t value, int32_t how,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* Raises a signal of the target, behind this thread's earlier puts to it.
 * = -, ncclSignal */
DISTWRAP_EXPORT int32_t distwrap_window_signal(
    distwrap_window window, distwrap_peer target, int64_t signal,
    uint64_t value, int32_t how, const distwrap_op_options* options,
    distwrap_work* work, distwrap_error* error);
/* Waits until this rank's signal compares to the value as it should.
 * = -, ncclWaitSignal */
DISTWRAP_EXPORT int32_t distwrap_window_wait_signal(
    distwrap_window window, int64_t signal, int32_t compare, uint64_t value,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* Counting signals: the first two raise the counter between this rank and the
 * target, the third waits until the counter of `from` is above zero and takes
 * one off. On memory of a GPU they are the only signals. */
DISTWRAP_EXPORT int32_t distwrap_window_put_signal_pair(
    distwrap_window window, const distwrap_tensor* src, distwrap_peer target,
    int64_t offset, const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
DISTWRAP_EXPORT int32_t
distwrap_window_signal_pair(distwrap_window window, distwrap_peer target,
                            const distwrap_op_options* options,
                            distwrap_work* work, distwrap_error* error);
DISTWRAP_EXPORT int32_t
distwrap_window_wait_pair(distwrap_window window, distwrap_peer from,
                          const distwrap_op_options* options,
                          distwrap_work* work, distwrap_error* error);
/* Reduces `src` into the target's part, each element at once. = MPI_Accumulate,
 * - */
DISTWRAP_EXPORT int32_t distwrap_window_accumulate(
    distwrap_window window, const distwrap_tensor* src, distwrap_peer target,
    int64_t offset, int32_t reduction, const distwrap_op_options* options,
    distwrap_work* work, distwrap_error* error);
/* As accumulate, and `old` gets the elements from before.
 * = MPI_Get_accumulate, MPI_Fetch_and_op; - */
DISTWRAP_EXPORT int32_t distwrap_window_fetch_op(
    distwrap_window window, const distwrap_tensor* old,
    const distwrap_tensor* src, distwrap_peer target, int64_t offset,
    int32_t reduction, const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* Replaces one element of the target's part by the second element of
 * `expected_desired` if it equals the first; `old` gets what was there.
 * = MPI_Compare_and_swap, - */
DISTWRAP_EXPORT int32_t distwrap_window_compare_swap(
    distwrap_window window, const distwrap_tensor* old,
    const distwrap_tensor* expected_desired, distwrap_peer target,
    int64_t offset, const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* Waits until this thread's writes have arrived in the target's part; an unset
 * target means all ranks. = MPI_Win_flush, - */
DISTWRAP_EXPORT int32_t
distwrap_window_flush(distwrap_window window, distwrap_peer target,
                      const distwrap_op_options* options, distwrap_work* work,
                      distwrap_error* error);
/* Later writes of this thread arrive after its earlier ones; nobody waits. */
DISTWRAP_EXPORT int32_t distwrap_window_fence(
    distwrap_window window, const distwrap_op_options* options,
    distwrap_work* work, distwrap_error* error);

/* ---- objects: bytes of any size (DW_OBJECT_*) ----
 *
 * `encoding` says what the bytes are: any bytes, or an object in the encoding
 * of docs/objects.md, which is checked. All these functions wait. `list` gets
 * the objects and may be NULL. */

/* Every rank's object to every rank, by rank of the group. */
DISTWRAP_EXPORT int32_t
distwrap_all_gather_object(const distwrap_bytes* object, int32_t encoding,
                           const distwrap_op_options* options,
                           distwrap_list* list, distwrap_error* error);
/* Every rank's object to dst, by rank of the group. */
DISTWRAP_EXPORT int32_t
distwrap_gather_object(const distwrap_bytes* object, int32_t encoding,
                       distwrap_peer dst, const distwrap_op_options* options,
                       distwrap_list* list, distwrap_error* error);
/* Gives `count` objects of src to all ranks; `objects` is needed on src only.
 */
DISTWRAP_EXPORT int32_t distwrap_broadcast_object_list(
    const distwrap_bytes* objects, uint64_t count, int32_t encoding,
    distwrap_peer src, const distwrap_op_options* options, distwrap_list* list,
    distwrap_error* error);
/* Gives one object of src to each rank; other ranks pass none. `list` gets one
 * object. */
DISTWRAP_EXPORT int32_t distwrap_scatter_object_list(
    const distwrap_bytes* objects, uint64_t count, int32_t encoding,
    distwrap_peer src, const distwrap_op_options* options, distwrap_list* list,
    distwrap_error* error);
/* A list to one other rank, which receives as many objects. The sender waits
 * until the receiver calls. */
DISTWRAP_EXPORT int32_t distwrap_send_object_list(
    const distwrap_bytes* objects, uint64_t count, int32_t encoding,
    distwrap_peer dst, const distwrap_op_options* options,
    distwrap_error* error);
DISTWRAP_EXPORT int32_t
distwrap_recv_object_list(uint64_t count, int32_t encoding, distwrap_peer src,
                          const distwrap_op_options* options,
                          distwrap_list* list, distwrap_error* error);

/* Registers a check for extensions of this name (docs/objects.md). The check
 * sees the bytes that other ranks send before they are delivered; a result
 * other than DW_OK refuses the message. Every rank registers the name once,
 * before its first use; the registration holds for the process. At most 64
 * names. */
DISTWRAP_EXPORT int32_t
distwrap_register_object_type(const char* name, distwrap_object_check check,
                              void* user, distwrap_error* error);

/* ---- objects, value by value ----
 *
 * The encoding of docs/objects.md, for bindings: a writer makes the bytes of
 * one object of its values, and a reader gives the values of bytes of any
 * origin. One thread at a time uses a writer or a reader. */

DISTWRAP_EXPORT int32_t distwrap_writer_create(distwrap_writer* writer,
                                               distwrap_error* error);
/* Adds the next value. Refused: a value of no kind, text that is not UTF-8,
 * equal keys, containers more than 64 deep, and a value after the object's
 * end. */
DISTWRAP_EXPORT int32_t distwrap_writer_put(distwrap_writer writer,
                                            const distwrap_value* value,
                                            distwrap_error* error);
/* `list` gets the bytes of the object, which has to be complete. The writer may
 * begin another one. */
DISTWRAP_EXPORT int32_t distwrap_writer_take(distwrap_writer writer,
                                             distwrap_list* list,
                                             distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_writer_free(distwrap_writer writer);
/* Reads and checks all bytes; DW_DATA_LOSS, with the place, unless they are one
 * object. The bytes need not outlive the call. */
DISTWRAP_EXPORT int32_t distwrap_reader_create(const distwrap_bytes* bytes,
                                               distwrap_reader* reader,
                                               distwrap_error* error);
/* Gives the next value, which is valid as long as the reader; DW_VALUE_END
 * after the last. */
DISTWRAP_EXPORT int32_t distwrap_reader_next(distwrap_reader reader,
                                             distwrap_value* value,
                                             distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_reader_free(distwrap_reader reader);

/* ---- meshes, layouts and plans (mesh.h, layout.h, plan.h) ---- */

/* Makes a mesh of ranks of the thread's world: ranks as places in a grid of
 * several axes. Sends nothing. */
DISTWRAP_EXPORT int32_t
distwrap_mesh_create(const distwrap_mesh_options* options, distwrap_mesh* mesh,
                     distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_mesh_free(distwrap_mesh mesh);
/* The sizes of the mesh's axes, its ranks, and this rank's place. */
DISTWRAP_EXPORT int32_t distwrap_mesh_read(distwrap_mesh mesh,
                                           distwrap_mesh_info* info,
                                           distwrap_error* error);
/* Makes the mesh that has these axes, in this order, and this rank in it. Sends
 * nothing. */
DISTWRAP_EXPORT int32_t distwrap_mesh_along(distwrap_mesh mesh,
                                            const int32_t* axes, uint64_t count,
                                            distwrap_mesh* part,
                                            distwrap_error* error);
/* The group of the ranks that differ from this one at most along these axes.
 * The first call for some axes is made by all members of that group.
 * = MPI_Cart_sub, - */
DISTWRAP_EXPORT int32_t distwrap_mesh_group(distwrap_mesh mesh,
                                            const int32_t* axes, uint64_t count,
                                            distwrap_group* group,
                                            distwrap_error* error);

/* Writes the shape of a rank's part of a tensor, and the first index of the
 * part in each dimension. Each gets `ndim` numbers and may be NULL. */
DISTWRAP_EXPORT int32_t distwrap_layout_part(const distwrap_layout* layout,
                                             const int64_t* shape, int32_t ndim,
                                             int64_t rank, int64_t* local_shape,
                                             int64_t* offset,
                                             distwrap_error* error);
/* Plans how a tensor of `shape`, with elements of `itemsize` bytes, gets from
 * one layout to another. Sends nothing and needs no session. */
DISTWRAP_EXPORT int32_t
distwrap_plan_create(const distwrap_layout* from, const distwrap_layout* to,
                     const int64_t* shape, int32_t ndim, int64_t itemsize,
                     const distwrap_plan_options* options, distwrap_plan* plan,
                     distwrap_error* error);
/* Plans how the gradient of what `plan` gives gets back to that of what it
 * takes, with the same options. DW_INVALID_ARGUMENT (DW_REASON_PARTIAL_STATE)
 * for partial layouts that have no gradient, such as P(max). */
DISTWRAP_EXPORT int32_t distwrap_plan_backward(distwrap_plan plan,
                                               distwrap_plan* backward,
                                               distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_plan_free(distwrap_plan plan);
/* The cost of a plan: steps, elements moved, memory, estimated time. */
DISTWRAP_EXPORT int32_t distwrap_plan_read(distwrap_plan plan,
                                           distwrap_plan_info* info,
                                           distwrap_error* error);
/* `list` gets one text, equal on all ranks (docs/redistribution.md). */
DISTWRAP_EXPORT int32_t distwrap_plan_text(distwrap_plan plan,
                                           distwrap_list* list,
                                           distwrap_error* error);
/* Moves this rank's part of a tensor of `shape` from the layout `from` to the
 * layout `to`, on all ranks of the mesh. `in` and `out` share no memory; a
 * strided one costs a copy. */
DISTWRAP_EXPORT int32_t distwrap_redistribute(
    distwrap_mesh mesh, const distwrap_tensor* out, const char* to,
    const distwrap_tensor* in, const char* from, const int64_t* shape,
    int32_t ndim, const distwrap_plan_options* options, distwrap_error* error);
/* Starts a redistribution without waiting. The buffers have to live until
 * `work` has ended. The redistributions of a mesh run one after the other in
 * the order in which they are started, also those that wait; beside them the
 * program may use the mesh's groups for nothing else. */
DISTWRAP_EXPORT int32_t distwrap_redistribute_async(
    distwrap_mesh mesh, const distwrap_tensor* out, const char* to,
    const distwrap_tensor* in, const char* from, const int64_t* shape,
    int32_t ndim, const distwrap_plan_options* options, distwrap_work* work,
    distwrap_error* error);
/* Redistributes `count` tensors of one element type: shapes[i] has ndims[i]
 * extents. Tensors whose plans have equal steps share each collective. */
DISTWRAP_EXPORT int32_t distwrap_redistribute_many(
    distwrap_mesh mesh, const distwrap_tensor* const* outs, const char* to,
    const distwrap_tensor* const* ins, const char* from,
    const int64_t* const* shapes, const int32_t* ndims, uint64_t count,
    const distwrap_plan_options* options, distwrap_error* error);
/* Moves a tensor from a mesh to another one; they may have all ranks in common,
 * some or none. All ranks of either mesh call. `out` may be NULL on a rank
 * outside of `to_mesh`, and `in` on a rank outside of `from_mesh`. */
DISTWRAP_EXPORT int32_t distwrap_redistribute_between(
    distwrap_mesh to_mesh, const distwrap_tensor* out, const char* to,
    distwrap_mesh from_mesh, const distwrap_tensor* in, const char* from,
    const int64_t* shape, int32_t ndim, const distwrap_plan_options* options,
    distwrap_error* error);

/* ---- mixtures of experts (moe.h) ----
 *
 * Shapes: T tokens of this rank, K experts of a token, X experts in all, M rows
 * that this rank receives, H elements of a row. */

/* Makes a plan from the experts' numbers (T,K), i32 or i64, or from a map (T,X)
 * of bool. All ranks of the group call, and wait. `reuse`, which may be NULL,
 * is a plan whose memory is taken over; its handle is freed. */
DISTWRAP_EXPORT int32_t distwrap_moe_plan_create(
    const distwrap_tensor* routing, const distwrap_moe_options* moe,
    const distwrap_op_options* options, distwrap_moe_plan reuse,
    distwrap_moe_plan* plan, distwrap_error* error);
/* Frees the handle. Calls and tensors that use the plan keep what they need. */
DISTWRAP_EXPORT int32_t distwrap_moe_plan_free(distwrap_moe_plan plan);
/* The traffic of a plan: rows, bytes, and tokens that were dropped. */
DISTWRAP_EXPORT int32_t distwrap_moe_plan_read(distwrap_moe_plan plan,
                                               distwrap_moe_plan_info* info,
                                               distwrap_error* error);
/* Gives one of the plan's tensors, which is read-only and lives until its
 * deleter is called. `which` is DW_MOE_COUNTS_PER_RANK or one of those behind
 * it. */
DISTWRAP_EXPORT int32_t distwrap_moe_plan_tensor(
    distwrap_moe_plan plan, int32_t which, distwrap_managed_tensor** managed,
    distwrap_error* error);
/* The first error, since the last check, of a call that ended without a caller
 * who waited for it. */
DISTWRAP_EXPORT int32_t distwrap_moe_plan_check(distwrap_moe_plan plan,
                                                distwrap_error* error);
/* The bytes of staging memory of one call with rows of `row_bytes`. */
DISTWRAP_EXPORT int32_t distwrap_moe_plan_workspace(distwrap_moe_plan plan,
                                                    int64_t row_bytes,
                                                    int64_t* bytes,
                                                    distwrap_error* error);
/* Allocates the memory of `in_flight` calls at a time (0: 2). */
DISTWRAP_EXPORT int32_t distwrap_moe_plan_prepare(distwrap_moe_plan plan,
                                                  int64_t row_bytes,
                                                  int32_t in_flight,
                                                  distwrap_error* error);
/* Sends the rows of `x` (T,..) to the ranks of their experts, into `out`. */
DISTWRAP_EXPORT int32_t
distwrap_moe_dispatch(distwrap_moe_plan plan, const distwrap_tensor* out,
                      const distwrap_tensor* x, const distwrap_moe_side* side,
                      uint64_t side_count, const distwrap_op_options* options,
                      distwrap_work* work, distwrap_error* error);
/* Brings the rows `y` (M,H) back and adds those of each token into `out`. */
DISTWRAP_EXPORT int32_t distwrap_moe_combine(
    distwrap_moe_plan plan, const distwrap_tensor* out,
    const distwrap_tensor* y, const distwrap_moe_combine_options* combine,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* Start a dispatch or a combine, and give a handle with which it is finished.
 * The tensors are used until then. */
DISTWRAP_EXPORT int32_t distwrap_moe_dispatch_start(
    distwrap_moe_plan plan, const distwrap_tensor* out,
    const distwrap_tensor* x, const distwrap_moe_side* side,
    uint64_t side_count, const distwrap_op_options* options,
    distwrap_moe_pending* pending, distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_moe_combine_start(
    distwrap_moe_plan plan, const distwrap_tensor* out,
    const distwrap_tensor* y, const distwrap_moe_combine_options* combine,
    const distwrap_op_options* options, distwrap_moe_pending* pending,
    distwrap_error* error);
/* Waits for the rows and writes the outputs; once for each handle. */
DISTWRAP_EXPORT int32_t distwrap_moe_pending_finish(
    distwrap_moe_pending pending, distwrap_error* error);
/* Frees the handle. A call that was not finished is finished first, at most
 * until its deadline. */
DISTWRAP_EXPORT int32_t distwrap_moe_pending_free(distwrap_moe_pending pending);

/* ---- mixtures of experts by index maps and by chunks (moe_raw.h,
 *      moe_dynamic.h) ----
 *
 * Shapes: N nodes of L ranks each, R = N * L; T tokens of each rank, H elements
 * of a token, K experts of a token, E experts of a rank, M rows that this rank
 * receives; C chunks of a rank. */

/* Makes a request; collective. `dtype`: DW_DTYPE_*. `ranks_per_node`: 0 takes
 * the hosts of the group. */
DISTWRAP_EXPORT int32_t distwrap_alltoallv_dedup_init(
    int64_t num_tokens, int64_t token_size, int32_t topk_k,
    int32_t experts_per_rank, int32_t dtype, int32_t ranks_per_node,
    const distwrap_op_options* options, distwrap_dedup_request* request,
    distwrap_error* error);
/* Frees the handle. Calls that use the request keep it. */
DISTWRAP_EXPORT int32_t
distwrap_dedup_request_free(distwrap_dedup_request request);
/* Sends the tokens `input` (T,H) as the maps (i32) say, into `output` (M,H);
 * `recv_block_ids` (M), i32, gets their numbers at their sources. */
DISTWRAP_EXPORT int32_t distwrap_alltoallv_dedup_exec(
    const distwrap_tensor* output, const distwrap_tensor* recv_block_ids,
    const distwrap_tensor* input, const distwrap_tensor* send_indices,
    const distwrap_tensor* forward_indices, const distwrap_tensor* recv_indices,
    distwrap_dedup_request request, const distwrap_op_options* options,
    distwrap_work* work, distwrap_error* error);
/* Brings the rows `input` (M,H) back and adds those of each token into `output`
 * (T,H). */
DISTWRAP_EXPORT int32_t distwrap_alltoallv_dedup_combine(
    const distwrap_tensor* output, const distwrap_tensor* input,
    const distwrap_tensor* send_indices, const distwrap_tensor* forward_indices,
    const distwrap_tensor* recv_indices, distwrap_dedup_request request,
    const distwrap_moe_combine_options* combine,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* Writes the maps of `rank`, i32: send_indices (N,T), forward_indices (L,N,T)
 * and recv_indices (E,R,T), from the experts' numbers (R,T,K) of all ranks.
 * Local. */
DISTWRAP_EXPORT int32_t distwrap_dedup_maps(
    const distwrap_tensor* topk_all, int32_t experts_per_rank,
    int32_t ranks_per_node, int32_t rank, const distwrap_tensor* send_indices,
    const distwrap_tensor* forward_indices, const distwrap_tensor* recv_indices,
    distwrap_error* error);
/* Sends chunks of `input`. `outs` has an output for each rank; the lists are
 * i64: `output_split_sizes` (R*C), which is written, `input_split_sizes` (C),
 * `input_split_indices`, and `input_split_indices_per_rank` (R). Waits. */
DISTWRAP_EXPORT int32_t distwrap_alltoallv_dynamic_dispatch(
    const distwrap_tensor* const* outs, uint64_t outs_count,
    const distwrap_tensor* output_split_sizes, const distwrap_tensor* input,
    const distwrap_tensor* input_split_sizes,
    const distwrap_tensor* input_split_indices,
    const distwrap_tensor* input_split_indices_per_rank, int64_t row_elements,
    const distwrap_op_options* options, distwrap_error* error);
/* Brings chunks back. `input` has a slab for each rank, and
 * `input_split_sizes` (R*C) the gathered sizes. Waits. */
DISTWRAP_EXPORT int32_t distwrap_alltoallv_dynamic_combine(
    const distwrap_tensor* output, const distwrap_tensor* input,
    const distwrap_tensor* input_split_sizes,
    const distwrap_tensor* input_split_indices,
    const distwrap_tensor* input_split_indices_per_rank, int64_t row_elements,
    const distwrap_op_options* options, distwrap_error* error);
/* Start the same. The sizes and ids are read before the call returns, and the
 * gathered sizes written; the data have to live until `work` has ended. A NULL
 * `work`: waits. */
DISTWRAP_EXPORT int32_t distwrap_alltoallv_dynamic_dispatch_async(
    const distwrap_tensor* const* outs, uint64_t outs_count,
    const distwrap_tensor* output_split_sizes, const distwrap_tensor* input,
    const distwrap_tensor* input_split_sizes,
    const distwrap_tensor* input_split_indices,
    const distwrap_tensor* input_split_indices_per_rank, int64_t row_elements,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_alltoallv_dynamic_combine_async(
    const distwrap_tensor* output, const distwrap_tensor* input,
    const distwrap_tensor* input_split_sizes,
    const distwrap_tensor* input_split_indices,
    const distwrap_tensor* input_split_indices_per_rank, int64_t row_elements,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* Sends the first input_counts[r] elements of ins[r] to rank r; outs[p] gets
 * what rank p sends, and `output_counts` (R) how much. Counts are i64. */
DISTWRAP_EXPORT int32_t distwrap_alltoallv_dynamic(
    const distwrap_tensor* const* outs, uint64_t outs_count,
    const distwrap_tensor* output_counts, const distwrap_tensor* const* ins,
    uint64_t ins_count, const distwrap_tensor* input_counts,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* Sends pieces of `input` that follow each other. */
DISTWRAP_EXPORT int32_t distwrap_alltoallv_dynamic_split(
    const distwrap_tensor* const* outs, uint64_t outs_count,
    const distwrap_tensor* output_counts, const distwrap_tensor* input,
    const distwrap_tensor* input_split_lengths,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error);
/* Sends rows with sizes (R), i64, that both sides state. */
DISTWRAP_EXPORT int32_t distwrap_device_alltoallv_single(
    const distwrap_tensor* output, const distwrap_tensor* input,
    const distwrap_tensor* output_split_sizes,
    const distwrap_tensor* input_split_sizes, const distwrap_pair* hints,
    uint64_t hints_count, const distwrap_op_options* options,
    distwrap_work* work, distwrap_error* error);

/* ---- prepared exchanges (alltoallv_op.h); one thread at a time ---- */

/* Makes an exchange, and allocates nothing. `group` may be NULL: the world. */
DISTWRAP_EXPORT int32_t distwrap_alltoallv_op_create(distwrap_group group,
                                                     int64_t capacity_bytes,
                                                     int64_t max_bytes_per_peer,
                                                     distwrap_alltoallv_op* op,
                                                     distwrap_error* error);
/* Allocates; collective. */
DISTWRAP_EXPORT int32_t distwrap_alltoallv_op_setup(distwrap_alltoallv_op op,
                                                    distwrap_error* error);
/* Sends in_splits[r] rows of `x` to rank r; both lists have `ranks` items.
 * `rows` is valid until the second next call. A NULL `x` stands for the
 * elements of the last send buffer. */
DISTWRAP_EXPORT int32_t
distwrap_alltoallv_op_run(distwrap_alltoallv_op op, const distwrap_tensor* x,
                          const int64_t* out_splits, const int64_t* in_splits,
                          uint64_t ranks, const distwrap_op_options* options,
                          distwrap_output* rows, distwrap_error* error);
/* Memory for `count` elements that a run with a NULL `x` sends. */
DISTWRAP_EXPORT int32_t distwrap_alltoallv_op_send_buffer(
    distwrap_alltoallv_op op, int64_t count, int32_t dtype,
    distwrap_output* buffer, distwrap_error* error);
/* Waits for all ranks, and frees the memory; collective. */
DISTWRAP_EXPORT int32_t distwrap_alltoallv_op_close(distwrap_alltoallv_op op,
                                                    distwrap_error* error);
/* Frees the handle. */
DISTWRAP_EXPORT int32_t distwrap_alltoallv_op_free(distwrap_alltoallv_op op);

/* ---- lists of texts or bytes that calls return ---- */

/* The number of items; 0 for a bad handle. */
DISTWRAP_EXPORT uint64_t distwrap_list_size(distwrap_list list);
/* The item is valid as long as the list, and a zero byte follows its last
 * byte. */
DISTWRAP_EXPORT int32_t distwrap_list_item(distwrap_list list, uint64_t index,
                                           distwrap_bytes* item,
                                           distwrap_error* error);
DISTWRAP_EXPORT int32_t distwrap_list_free(distwrap_list list);

/* ---- the store in which ranks meet (store.h) ---- */

/* A store within this process, for ranks that are threads. */
DISTWRAP_EXPORT int32_t distwrap_store_in_memory(distwrap_store* store,
                                                 distwrap_error* error);
/* Connects to a store; `address` has the form "unix:/path/of/socket". */
DISTWRAP_EXPORT int32_t distwrap_store_connect(const char* address,
                                               int64_t timeout,
                                               distwrap_store* store,
                                               distwrap_error* error);
/* Frees the handle; keys stay as long as the store lives elsewhere. */
DISTWRAP_EXPORT int32_t distwrap_store_free(distwrap_store store);
/* Lets a descriptor end waits for stores: while it is set, the first call of
 * this thread that waits for a store and finds it readable fails with
 * DW_ABORTED. -1 ends that. The descriptor is the caller's. */
DISTWRAP_EXPORT int32_t distwrap_store_interrupt_by(int32_t fd,
                                                    distwrap_error* error);
/* Sets the value of a key, whether or not it had one. */
DISTWRAP_EXPORT int32_t distwrap_store_set(distwrap_store store,
                                           const char* key,
                                           const distwrap_bytes* value,
                                           int64_t timeout,
                                           distwrap_error* error);
/* Waits until all keys exist; `list` gets their values in order. */
DISTWRAP_EXPORT int32_t distwrap_store_get(distwrap_store store,
                                           const char* const* keys,
                                           uint64_t count, int64_t timeout,
                                           distwrap_list* list,
                                           distwrap_error* error);
/* Waits until all keys exist. */
DISTWRAP_EXPORT int32_t distwrap_store_wait(distwrap_store store,
                                            const char* const* keys,
                                            uint64_t count, int64_t timeout,
                                            distwrap_error* error);
/* Adds to a number under a key, which begins at 0. `sum` gets the new number
 * and may be NULL. */
DISTWRAP_EXPORT int32_t distwrap_store_add(distwrap_store store,
                                           const char* key, int64_t delta,
                                           int64_t timeout, int64_t* sum,
                                           distwrap_error* error);
/* Sets a key to `desired` if its value is `expected`. `list`, which may be
 * NULL, gets the value after the call. */
DISTWRAP_EXPORT int32_t distwrap_store_compare_set(
    distwrap_store store, const char* key, const distwrap_bytes* expected,
    const distwrap_bytes* desired, int64_t timeout, distwrap_list* list,
    distwrap_error* error);
/* Deletes a key. `existed`, which may be NULL, gets 1 when the key had a value.
 */
DISTWRAP_EXPORT int32_t distwrap_store_delete_key(distwrap_store store,
                                                  const char* key,
                                                  int64_t timeout,
                                                  int32_t* existed,
                                                  distwrap_error* error);
/* `list` gets one text, by which other processes connect. */
DISTWRAP_EXPORT int32_t distwrap_store_address(distwrap_store store,
                                               distwrap_list* list,
                                               distwrap_error* error);

#ifdef __cplusplus
}
#endif

#endif /* DISTWRAP_C_H_ */
