/* The handles and structs of the C API. c.h states the rules for all of them
 * and shows an example.
 *
 * Threads and ownership: plain data. Pointers in a struct are borrowed for the
 * call, or live as long as the struct's comment says. */
#ifndef DISTWRAP_C_TYPES_H_
#define DISTWRAP_C_TYPES_H_

#include "distwrap/abi/types.h" /* DW_OK, DW_REASON_*, DW_DTYPE_*, ... */

#include <stdint.h>

/* ---- handles (rule 2) ---- */

typedef struct distwrap_session_handle* distwrap_session;
typedef struct distwrap_group_handle* distwrap_group;
typedef struct distwrap_work_handle* distwrap_work;
typedef struct distwrap_batch_handle* distwrap_batch;
typedef struct distwrap_store_handle* distwrap_store;
typedef struct distwrap_list_handle* distwrap_list;
typedef struct distwrap_error_handle* distwrap_error;
typedef struct distwrap_hook_handle* distwrap_hook;
typedef struct distwrap_window_handle* distwrap_window;
typedef struct distwrap_memory_handle* distwrap_memory;
typedef struct distwrap_pages_handle* distwrap_pages;
typedef struct distwrap_writer_handle* distwrap_writer;
typedef struct distwrap_reader_handle* distwrap_reader;
typedef struct distwrap_mesh_handle* distwrap_mesh;
typedef struct distwrap_plan_handle* distwrap_plan;
typedef struct distwrap_moe_plan_handle* distwrap_moe_plan;
typedef struct distwrap_moe_pending_handle* distwrap_moe_pending;
typedef struct distwrap_dedup_request_handle* distwrap_dedup_request;
typedef struct distwrap_alltoallv_op_handle* distwrap_alltoallv_op;
typedef struct distwrap_prepared_handle* distwrap_prepared;

/* ---- values ---- */

/* All times of the C API are in nanoseconds. */
#define DW_FOREVER INT64_MAX

/* A device, with DLPack's codes: DW_DEVICE_CPU, DW_DEVICE_CUDA, ... */
typedef struct distwrap_device { /* leaf */
  int32_t device_type;
  int32_t device_id;
} distwrap_device;

/* Elements in memory. The struct equals the DLTensor of any dlpack.h member by
 * member, so `(const distwrap_tensor*)&dl_tensor` is valid. */
typedef struct distwrap_tensor { /* leaf */
  void* data;
  distwrap_device device;
  int32_t ndim;
  dw_dtype dtype;   /* distwrap_dtype(DW_DTYPE_F32) */
  int64_t* shape;   /* ndim extents */
  int64_t* strides; /* in elements; NULL: row-major */
  uint64_t byte_offset;
} distwrap_tensor;

typedef struct distwrap_dlpack_version { /* leaf */
  uint32_t major;
  uint32_t minor;
} distwrap_dlpack_version;

/* DLPack's DLManagedTensorVersioned, member by member. */
#define DW_DLPACK_READ_ONLY 1
typedef struct distwrap_managed_tensor { /* leaf */
  distwrap_dlpack_version version;
  void* manager_ctx;
  void (*deleter)(struct distwrap_managed_tensor* self);
  uint64_t flags;
  distwrap_tensor dl_tensor;
} distwrap_managed_tensor;

/* A rank, and the numbering in which it is meant. All zero is no rank. */
#define DW_RANK_OF_WORLD 1
#define DW_RANK_OF_GROUP 2
typedef struct distwrap_peer { /* leaf */
  int32_t numbering;           /* 0, DW_RANK_OF_WORLD or DW_RANK_OF_GROUP */
  int32_t rank;
} distwrap_peer;

typedef struct distwrap_bytes { /* leaf */
  const void* data;
  uint64_t size;
} distwrap_bytes;

typedef struct distwrap_pair { /* leaf */
  const char* key;
  const char* value;
} distwrap_pair;

/* ---- options (rule 4) ---- */

#define DW_DROP_IN_ON 1
#define DW_DROP_IN_OFF 2
#define DW_GUARD_OFF 1
#define DW_GUARD_WARN 2
#define DW_GUARD_BLOCK 3
#define DW_GUARD_REQUIRE 4
#define DW_CHECK_SIGNATURE 1
#define DW_CHECK_OFF 2
#define DW_CHECK_FULL 3
typedef struct distwrap_init_options {
  uint32_t struct_size;
  uint32_t has_rank;    /* `rank` is set; else the launcher's */
  int32_t rank;         /* 0 to world_size - 1 */
  int32_t world_size;   /* 0: the launcher's */
  const char* backend;  /* "gloo", "cpu:shm"; NULL: "auto" */
  distwrap_store store; /* meeting point; not with init_method */
  const char* init_method;
  int64_t timeout;        /* operations' limit; 0: DISTWRAP_TIMEOUT */
  int64_t init_timeout;   /* start-up's limit; 0: DISTWRAP_INIT_TIMEOUT */
  const char* group_name; /* name of the world; NULL: "world" */
  const distwrap_pair* hints;
  uint64_t hints_count;
  uint32_t has_device_id; /* `device_id` is set; else 0 */
  int32_t device_id;
  /* Whether calls are as strict as in torch.distributed: DW_DROP_IN_ON or
   * DW_DROP_IN_OFF; 0: DISTWRAP_DROP_IN. */
  uint32_t drop_in;
  /* Whether ranks compare their collectives: DW_CHECK_SIGNATURE, DW_CHECK_FULL
   * or DW_CHECK_OFF; 0: DISTWRAP_CHECK. */
  uint32_t check;
  /* The time after which a waiting rank reports the missing ranks; DW_FOREVER:
   * never; 0: DISTWRAP_STRAGGLER. */
  int64_t straggler;
  /* Whether calls of other communication libraries are refused (guard.h):
   * DW_GUARD_OFF and so on; 0: DISTWRAP_GUARD. */
  uint32_t guard;
  uint32_t reserved;
  /* A descriptor that ends the start with kAborted when it becomes readable; it
   * stays the caller's. */
  uint32_t has_interrupt_fd; /* `interrupt_fd` is set; else none */
  int32_t interrupt_fd;
} distwrap_init_options;

typedef struct distwrap_op_options {
  uint32_t struct_size;
  uint32_t reserved;
  distwrap_group group; /* NULL: the world */
  distwrap_batch batch; /* records the call */
  int64_t timeout;      /* counted from the call; 0: the group's */
  dw_stream stream;     /* a stream of the device */
  const char* label;    /* quoted by the operation's errors */
  /* The factor of DW_REDUCE_PREMUL_SUM, in one of two forms: a number, or a
   * tensor of one element that is read when the operation runs. */
  const double* factor;
  const distwrap_tensor* factor_tensor;
} distwrap_op_options;

/* The options of distwrap_split_group, distwrap_split_group_by_color and
 * distwrap_new_group. */
typedef struct distwrap_group_options {
  uint32_t struct_size;
  uint32_t use_local_synchronization; /* new_group: only members call */
  distwrap_group parent;              /* parent of a split; NULL: the world */
  const int32_t* ranks; /* split: the lists, one behind the other, in ranks of
                           the parent; new_group: one list, in ranks of the
                           world; NULL: all */
  uint64_t ranks_count;
  const uint64_t* list_sizes; /* split_group: length of each list */
  uint64_t lists;
  int64_t timeout;            /* operations' limit; 0: the parent's */
  const char* backend;        /* NULL: the parent's */
  const char* description;    /* NULL: "" */
  const distwrap_pair* hints; /* NULL: the parent's */
  uint64_t hints_count;
  uint32_t
      has_device_id; /* new_group: `device_id` counts; else the session's */
  int32_t device_id;
  uint32_t keep_order; /* new_group: a rank's place in `ranks` is its rank in
                          the new group; 0: by their order in the world */
  uint32_t reserved;
} distwrap_group_options;

/* The options of distwrap_new_window. */
typedef struct distwrap_window_options {
  uint32_t struct_size;
  int32_t dtype;                 /* DW_DTYPE_* of allocated memory */
  distwrap_group group;          /* NULL: the world */
  const distwrap_tensor* memory; /* own memory; NULL: the library allocates */
  int64_t count;                 /* elements to allocate */
  int64_t signals;               /* slots of each rank; 0: 64, -1: none */
  int64_t timeout;               /* limit of the creation; 0: the group's */
  const char* backend;           /* NULL: the one of the memory's device */
  const char* label;             /* quoted by errors */
} distwrap_window_options;

/* The options of distwrap_mesh_create. */
typedef struct distwrap_mesh_options {
  uint32_t struct_size;
  uint32_t axes;
  const int64_t* sizes;     /* one for each axis, the last one fastest */
  const char* const* names; /* one for each axis; NULL: none */
  const int32_t* ranks;     /* ranks of the world, row-major; NULL: the block of
                               consecutive ranks that has this one */
  uint64_t ranks_count;
} distwrap_mesh_options;

/* A layout of tensors on a mesh of these sizes: a placement for each axis, as
 * Layout::parse in layout.h reads it, such as "P(sum),S(0)". */
typedef struct distwrap_layout { /* leaf */
  const int64_t* sizes;
  uint64_t axes;
  const char* text;
} distwrap_layout;

/* How a plan is chosen; plan.h explains the modes. */
#define DW_PLAN_FASTEST 0
#define DW_PLAN_FEWEST_BYTES 1
#define DW_PLAN_PYTORCH 2
typedef struct distwrap_plan_options {
  uint32_t struct_size;
  int32_t mode;           /* DW_PLAN_* */
  int64_t cap_bytes;      /* memory between the steps; 0: 16 MiB */
  int64_t ranks_per_host; /* consecutive ranks of the mesh; 0: all */
  int64_t timeout;        /* limit of distwrap_redistribute; 0: the groups' */
  dw_dtype wire_dtype;    /* the type in which floats travel; bits 0: unset */
  uint32_t reserved;
} distwrap_plan_options;

/* The options of distwrap_moe_plan_create, equal on all ranks; MoeOptions in
 * moe_plan.h explains them. */
#define DW_MOE_AUTO 0 /* `dedup`: a copy for each ... */
#define DW_MOE_NONE 1
#define DW_MOE_RANK 2
#define DW_MOE_NODE 3
#define DW_MOE_RANK_MAJOR 0 /* `layout` */
#define DW_MOE_EXPERT_MAJOR 1
#define DW_MOE_PACKED 0 /* `bases` */
#define DW_MOE_FIXED 1
#define DW_MOE_EXACT 0 /* `overflow` */
#define DW_MOE_CAPACITY_DROP 1
#define DW_MOE_CAPACITY_ERROR 2
typedef struct distwrap_moe_options {
  uint32_t struct_size;
  int32_t dedup;
  int32_t layout;
  int32_t bases;
  int32_t overflow;
  uint32_t keep_padding;         /* 1: rows of padding are not set to zero */
  int64_t num_experts;           /* X */
  const int32_t* expert_to_rank; /* X numbers; NULL: X / R on each rank */
  int64_t alignment;             /* rows of a bucket; 0: 1 */
  int64_t expert_capacity;       /* 0: no limit, as the two that follow */
  int64_t row_capacity;
  int64_t max_tokens;
  const int32_t* masked_ranks; /* ranks that do not call */
  uint64_t masked_ranks_count;
  const int32_t* node_of; /* a number for each rank; NULL: the hosts */
  uint64_t node_of_count;
  uint32_t
      validate; /* 1: each call compares its arguments on all ranks first */
  uint32_t reserved;
} distwrap_moe_options;

/* Rows that travel with a dispatch: any row of a token, or weights of its
 * slots (SideChannel in moe_plan.h). */
typedef struct distwrap_moe_side { /* leaf */
  const distwrap_tensor* in;
  const distwrap_tensor* out;
  int32_t is_weights;
  uint32_t reserved;
} distwrap_moe_side;

/* Values that a combine brings back to their slots. */
typedef struct distwrap_moe_return { /* leaf */
  const distwrap_tensor* in;
  const distwrap_tensor* out;
} distwrap_moe_return;

/* The options of a combine; CombineOptions in moe_plan.h explains them. */
#define DW_MOE_UNWEIGHTED 0 /* `weighting` */
#define DW_MOE_AT_EXPERT 1
#define DW_MOE_AT_SOURCE 2
#define DW_MOE_TREE 0 /* `order` */
#define DW_MOE_TOP_K 1
typedef struct distwrap_moe_combine_options {
  uint32_t struct_size;
  int32_t weighting;
  int32_t order;
  uint32_t reproducible;
  const distwrap_tensor* weights;
  const distwrap_tensor* const* bias; /* at most two */
  uint64_t bias_count;
  const distwrap_moe_return* returns;
  uint64_t returns_count;
} distwrap_moe_combine_options;

/* One message of distwrap_batch_isend_irecv. */
#define DW_ISEND 0
#define DW_IRECV 1
typedef struct distwrap_p2p_op { /* leaf */
  const distwrap_tensor* tensor;
  distwrap_group group; /* NULL: that of the call's options */
  distwrap_peer peer;
  int64_t tag;
  int32_t kind; /* DW_ISEND or DW_IRECV */
  uint32_t reserved;
} distwrap_p2p_op;

/* ---- results of calls (rule 4) ---- */

/* The call in which another rank of the same host last saw a rank. */
#define DW_SEEN_NOTHING 0 /* the rank has made no call on the group */
#define DW_SEEN_INSIDE 1  /* the rank is in `call` */
#define DW_SEEN_DONE 2    /* the rank has ended `call`, its last one */
#define DW_SEEN_LEFT 3    /* the rank has left the group */
typedef struct distwrap_seen_rank { /* leaf */
  int32_t rank;                     /* rank of the group */
  int32_t global_rank;              /* rank of the world */
  int64_t pid;                      /* 0: not known */
  const char* host;
  const char* call;  /* "all_reduce f32 x 1024 sum" */
  const char* group; /* the group of the call */
  const char* label; /* first characters of the call's label */
  uint64_t seq;      /* sequence number of the call */
  int64_t since;     /* time in this state; 0: not known */
  int64_t silent;    /* time without running at all */
  int32_t doing;     /* DW_SEEN_* */
  uint32_t reserved;
} distwrap_seen_rank;

/* The fields behind the one line of an error. A text that is not known is
 * empty; a number is 0 or -1. Texts and ranks live as long as the error. */
typedef struct distwrap_error_info {
  uint32_t struct_size;
  int32_t code;       /* DW_<CODE> */
  int32_t reason;     /* DW_REASON_<REASON> */
  int32_t my_rank;    /* in the group; -1 */
  int32_t group_size; /* 0 */
  uint32_t ranks_count;
  const int32_t* ranks; /* the ranks to blame, as ranks of the group */
  uint64_t seq;         /* number of the collective; 0 */
  int64_t elapsed;      /* 0 */
  int64_t limit;        /* the time limit in force; 0 */
  const char* text;     /* the whole error in one line */
  const char* what;     /* the statement: which rule was broken */
  const char* op;
  const char* group;
  const char* expected;
  const char* actual;
  const char* cause;
  const char* next_step; /* one thing to do next */
  const char* label;
  /* the calls in which some `ranks` were seen */
  const distwrap_seen_rank* seen;
  uint64_t seen_count;
  /* the setting that changes the limit: "DISTWRAP_HEARTBEAT" */
  const char* setting;
  const char* page; /* page of the documentation: "DW-0062" */
} distwrap_error_info;

/* A group. Texts live as long as the handle; texts of the world live as long
 * as the session. */
typedef struct distwrap_group_info {
  uint32_t struct_size;
  int32_t rank; /* this rank in the group */
  int32_t size;
  uint32_t reserved;
  uint64_t uid;    /* equal on all members; names no other group of the job */
  int64_t timeout; /* default of operations; DW_FOREVER */
  const char* name;
  const char* description;
} distwrap_group_info;

/* A mesh. The pointers live as long as the handle. */
typedef struct distwrap_mesh_info {
  uint32_t struct_size;
  uint32_t axes;
  const int64_t* sizes;
  int64_t size;         /* number of ranks */
  const int32_t* ranks; /* ranks of the world, row-major */
  int64_t rank;         /* this rank's place; -1 outside of the mesh */
} distwrap_mesh_info;

/* A plan, in elements of the rank, or the host, with the most. */
typedef struct distwrap_plan_info {
  uint32_t struct_size;
  int32_t collectives; /* steps that communicate */
  int64_t received;
  int64_t peak;      /* held at once */
  int64_t into_host; /* from other hosts */
  int64_t floor;     /* lacked of the target; -1 with partial axes */
  int64_t price;     /* estimated nanoseconds */
  int32_t diverged;  /* PyTorch's steps give another result, or do not exist */
  uint32_t steps;
} distwrap_plan_info;

/* A plan of mixtures of experts, and its traffic (MoePlan, MoeTraffic). */
typedef struct distwrap_moe_plan_info {
  uint32_t struct_size;
  int32_t dedup; /* DW_MOE_NONE, DW_MOE_RANK or DW_MOE_NODE */
  int64_t tokens;
  int64_t slots;
  int64_t recv_rows;
  int64_t output_rows;
  int64_t inter_rows;
  int64_t intra_rows;
  int64_t local_rows;
  int64_t naive_inter_rows;
  int64_t bytes_inter;
  int64_t bytes_intra;
  int64_t dropped;
  int64_t execs;
} distwrap_moe_plan_info;

/* The tensors of a plan: methods of MoePlan. */
#define DW_MOE_COUNTS_PER_RANK 0
#define DW_MOE_COUNTS_PER_NODE 1
#define DW_MOE_COUNTS_PER_EXPERT 2
#define DW_MOE_TOKEN_IN_RANK 3
#define DW_MOE_KEPT 4
#define DW_MOE_EXPERT_OFFSETS 5
#define DW_MOE_EXPERT_COUNTS 6
#define DW_MOE_SRC_RANK 7
#define DW_MOE_SRC_TOKEN 8
#define DW_MOE_RECV_TOPK_IDX 9
#define DW_MOE_DROPPED_PER_EXPERT 10
#define DW_MOE_SERVING_SLOTS 11
#define DW_MOE_RECV_ROWS 12
#define DW_MOE_WAIT_NS 13 /* MoeTraffic::wait_ns, as it is now */

/* A rank's part of a window. */
#define DW_WINDOW_UNIFIED 0  /* directly loadable by this rank */
#define DW_WINDOW_SEPARATE 1 /* this rank cannot */
typedef struct distwrap_window_attr {
  uint32_t struct_size;
  int32_t dtype; /* DW_DTYPE_* */
  int64_t count; /* elements */
  int64_t bytes;
  int32_t access; /* DW_WINDOW_* */
  uint32_t reserved;
} distwrap_window_attr;

/* The place of one part of an asynchronous operation's output, or of a window.
 */
typedef struct distwrap_output { /* leaf */
  void* data;
  int64_t count; /* elements */
  distwrap_device device;
  int32_t dtype; /* DW_DTYPE_* */
  uint32_t reserved;
} distwrap_output;

#define DW_WORK_QUEUED 0
#define DW_WORK_RUNNING 1
#define DW_WORK_DONE 2
#define DW_WORK_FAILED 3
#define DW_WORK_TIMED_OUT 4
#define DW_WORK_ABORTED 5
/* A part of a graph: without an end and a deadline of its own. */
#define DW_WORK_CAPTURED 6

/* The format of an object's bytes. */
#define DW_OBJECT_BYTES 0   /* any format of the program */
#define DW_OBJECT_ENCODED 1 /* one object in the codec of docs/objects.md */
/* No object: the bytes are a text that says why. The call fails on all ranks
 * with kObjectType and this text, so that no rank waits. */
#define DW_OBJECT_REFUSED 2

/* One value of an object, as distwrap_writer_put takes and distwrap_reader_next
 * gives it. The values inside a container follow it, each with those inside
 * itself first: `count` items of an array or tuple, or a key and a value for
 * each of the `count` entries of a map. */
#define DW_VALUE_END (-1) /* distwrap_reader_next: there are no more values */
#define DW_VALUE_NULL 0
#define DW_VALUE_BOOL 1    /* `integer`: 0 or 1 */
#define DW_VALUE_INTEGER 2 /* `integer` */
#define DW_VALUE_BIG 3     /* an integer that int64_t does not hold */
#define DW_VALUE_FLOAT 4   /* `number` */
#define DW_VALUE_TEXT 5    /* `bytes`: UTF-8 */
#define DW_VALUE_BYTES 6
#define DW_VALUE_ARRAY 7
#define DW_VALUE_TUPLE 8
#define DW_VALUE_MAP 9
#define DW_VALUE_TENSOR 10    /* `bytes`: the elements, row-major */
#define DW_VALUE_EXTENSION 11 /* `bytes` under `name` */
typedef struct distwrap_value {
  uint32_t struct_size;
  int32_t kind; /* DW_VALUE_* */
  int64_t integer;
  double number;
  uint64_t count;
  distwrap_bytes bytes; /* DW_VALUE_BIG: the magnitude, big-endian */
  const char* name;
  uint32_t negative; /* DW_VALUE_BIG: 1 below zero */
  int32_t ndim;      /* DW_VALUE_TENSOR */
  const int64_t* shape;
  dw_dtype dtype;
  uint32_t reserved;
} distwrap_value;

/* A callback that runs once when an operation has ended. `error` is NULL after
 * success, and lives until the callback returns. */
typedef void (*distwrap_callback)(void* user, int32_t code,
                                  distwrap_error error);

/* Checks the bytes of an extension that another rank has sent. */
typedef int32_t (*distwrap_object_check)(void* user,
                                         const distwrap_bytes* bytes);

/* ---- hooks (hooks.h) ---- */

/* A call as hooks see it. A field that does not apply is "", 0, -1 or NULL.
 * The struct lives until the callback returns. */
typedef struct distwrap_hooked_call {
  uint32_t struct_size;
  uint32_t kind; /* DW_OP_*; 0 unless it is an operation of a communicator */
  uint64_t id;   /* equal in all callbacks of the call, unique in the process */
  const char* op;
  const char* group;
  uint64_t group_uid;
  int32_t rank; /* this rank in the group */
  int32_t group_size;
  const distwrap_output* inputs; /* one for each buffer, or for each rank */
  uint64_t inputs_count;
  const distwrap_output* outputs;
  uint64_t outputs_count;
  const int64_t* in_counts; /* v forms: group_size elements each, or NULL */
  const int64_t* in_displs;
  const int64_t* out_counts;
  const int64_t* out_displs;
  int64_t tag;
  int32_t peer;      /* root or peer, rank of the group */
  int32_t reduction; /* DW_REDUCE_* */
  int64_t timeout;   /* the limit in force */
  const char* label;
  dw_stream stream;
  uint64_t seq;     /* number of the collective; 0 before its submission */
  uint64_t batch;   /* for an item: id of its batch */
  uint64_t items;   /* for a batch: its number of items */
  uint64_t objects; /* number of objects that this rank gives */
  uint32_t is_async;
  uint32_t in_place;
  uint32_t exclusive; /* exscan */
  uint32_t reserved;
  /* The options of a call that makes a group, without `parent`. */
  const distwrap_group_options* group_options;
  int64_t color; /* split_group_by_color */
  int64_t key;
  uint64_t window; /* number of the window of a window operation */
  int64_t offset;  /* elements in the target's part */
  int64_t signal;  /* index of the slot; -1: the pair's counter */
  uint64_t value;  /* operand of the signal */
} distwrap_hooked_call;

/* Returns DW_OK, or another DW_<CODE> to refuse the call. `why` may be set to
 * a text that stays valid until the library has the thread back. */
typedef int32_t (*distwrap_pre_hook)(void* user,
                                     const distwrap_hooked_call* call,
                                     const char** why);
/* `error` is NULL after success, and lives until the callback returns. */
typedef void (*distwrap_post_hook)(void* user, const distwrap_hooked_call* call,
                                   int32_t code, distwrap_error error);

/* A collective in which this rank has waited long for others; see Straggling
 * in hooks.h. The struct lives until the callback returns. */
typedef struct distwrap_straggling {
  uint32_t struct_size;
  uint32_t logged; /* this rank has written `text` to stderr */
  const char* group;
  uint64_t group_uid;
  int32_t rank; /* this rank in the group */
  int32_t group_size;
  const char* op; /* "all_reduce" */
  uint64_t seq;
  const char* label; /* first characters of the label */
  int64_t waited;
  const distwrap_seen_rank* missing;
  uint64_t missing_count;
  const char* text; /* the line for stderr */
} distwrap_straggling;
typedef void (*distwrap_straggler_hook)(void* user,
                                        const distwrap_straggling* straggling);

/* The callbacks of a hook; each may be NULL. The call that `abort` gets only
 * names the group that has broken. */
typedef struct distwrap_hooks {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  distwrap_pre_hook pre;
  distwrap_post_hook post;
  distwrap_post_hook abort;
  distwrap_post_hook completion;
  distwrap_straggler_hook straggler;
} distwrap_hooks;

#endif /* DISTWRAP_C_TYPES_H_ */
