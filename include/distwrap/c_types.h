/* What crosses the C API: handles and structs. The rules that all of it keeps
 * stand in c.h.
 *
 * Threads and ownership: plain data. */
#ifndef DISTWRAP_C_TYPES_H_
#define DISTWRAP_C_TYPES_H_

#include "distwrap/abi/types.h" /* DW_OK, DW_REASON_*, DW_REDUCE_*, DW_DTYPE_* */

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

/* ---- values ---- */

/* Times are nanoseconds. */
#define DW_FOREVER INT64_MAX

/* A device, with DLPack's codes: DW_DEVICE_CPU, DW_DEVICE_CUDA, ... */
typedef struct distwrap_device { /* leaf */
  int32_t device_type;
  int32_t device_id;
} distwrap_device;

/* Elements somewhere in memory: member by member the DLTensor of any dlpack.h,
 * so that `(const distwrap_tensor*)&dl_tensor` is one. */
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

/* A rank, and whose number it is. All zero is nobody. */
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
#define DW_CHECK_SIGNATURE 1
#define DW_CHECK_OFF 2
typedef struct distwrap_init_options {
  uint32_t struct_size;
  uint32_t has_rank;    /* `rank` counts; else the launcher's */
  int32_t rank;         /* 0 to world_size - 1 */
  int32_t world_size;   /* 0: the launcher's */
  const char* backend;  /* "gloo", "cpu:shm"; NULL: "auto" */
  distwrap_store store; /* how ranks meet; not both */
  const char* init_method;
  int64_t timeout;        /* of operations; 0: DISTWRAP_TIMEOUT */
  int64_t init_timeout;   /* of the start; 0: DISTWRAP_INIT_TIMEOUT */
  const char* group_name; /* of the world; NULL: "world" */
  const distwrap_pair* hints;
  uint64_t hints_count;
  uint32_t has_device_id; /* `device_id` counts; else 0 */
  int32_t device_id;
  uint32_t drop_in;  /* as strict as torch.distributed: DW_DROP_IN_ON or
                        DW_DROP_IN_OFF; 0: DISTWRAP_DROP_IN */
  uint32_t check;    /* whether ranks compare their collectives:
                        DW_CHECK_SIGNATURE or DW_CHECK_OFF; 0: DISTWRAP_CHECK */
  int64_t straggler; /* after this a rank that waits says for whom; DW_FOREVER:
                        never; 0: DISTWRAP_STRAGGLER */
} distwrap_init_options;

typedef struct distwrap_op_options {
  uint32_t struct_size;
  uint32_t reserved;
  distwrap_group group; /* NULL: the world */
  distwrap_batch batch; /* recorded in it, not run */
  int64_t timeout;      /* from the call on; 0: the group's */
  dw_stream stream;     /* of a device */
  const char* label;    /* stands in the operation's errors */
  /* Of DW_REDUCE_PREMUL_SUM, one of them: a number, or a tensor of one element
   * that is read when the operation runs. */
  const double* factor;
  const distwrap_tensor* factor_tensor;
} distwrap_op_options;

/* Of distwrap_split_group, distwrap_split_group_by_color, distwrap_new_group.
 */
typedef struct distwrap_group_options {
  uint32_t struct_size;
  uint32_t use_local_synchronization; /* new_group: only members call */
  distwrap_group parent;              /* of a split; NULL: the world */
  const int32_t* ranks; /* split: the lists, one behind the other, in ranks of
                           the parent; new_group: one list, in ranks of the
                           world; NULL: all */
  uint64_t ranks_count;
  const uint64_t* list_sizes; /* split_group: of each list */
  uint64_t lists;
  int64_t timeout;         /* of the new group's operations; 0: the parent's */
  const char* backend;     /* NULL: the parent's */
  const char* description; /* NULL: "" */
  const distwrap_pair* hints; /* NULL: the parent's */
  uint64_t hints_count;
  uint32_t
      has_device_id; /* new_group: `device_id` counts; else the session's */
  int32_t device_id;
} distwrap_group_options;

/* Of distwrap_new_window. */
typedef struct distwrap_window_options {
  uint32_t struct_size;
  int32_t dtype;                 /* DW_DTYPE_*, of what is allocated */
  distwrap_group group;          /* NULL: the world */
  const distwrap_tensor* memory; /* mine; NULL: the library allocates */
  int64_t count;                 /* elements to allocate */
  int64_t signals;               /* slots of each rank; 0: 64, -1: none */
  int64_t timeout;               /* of making it; 0: the group's */
  const char* backend;           /* NULL: that of the memory's device */
  const char* label;             /* stands in the errors */
} distwrap_window_options;

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

/* ---- what calls tell (rule 4) ---- */

/* What a rank was last seen doing by another one of its host. */
#define DW_SEEN_NOTHING 0           /* it has made no call on the group */
#define DW_SEEN_INSIDE 1            /* it is in `call` */
#define DW_SEEN_DONE 2              /* `call` was its last, and has ended */
#define DW_SEEN_LEFT 3              /* it has left the group */
typedef struct distwrap_seen_rank { /* leaf */
  int32_t rank;                     /* of the group */
  int32_t global_rank;              /* of the world */
  int64_t pid;                      /* 0: not known */
  const char* host;
  const char* call;  /* "all_reduce f32 x 1024 sum" */
  const char* group; /* where it made the call */
  const char* label; /* of the call; its first characters */
  uint64_t seq;      /* likewise */
  int64_t since;     /* for how long; 0: not known */
  int64_t silent;    /* for how long it has not run at all */
  int32_t doing;     /* DW_SEEN_* */
  uint32_t reserved;
} distwrap_seen_rank;

/* The fields behind the line of an error. Text is empty, and numbers are 0 or
 * -1, where they are not known. Texts and ranks live as long as the error. */
typedef struct distwrap_error_info {
  uint32_t struct_size;
  int32_t code;       /* DW_<CODE> */
  int32_t reason;     /* DW_REASON_<REASON> */
  int32_t my_rank;    /* in the group; -1 */
  int32_t group_size; /* 0 */
  uint32_t ranks_count;
  const int32_t* ranks; /* who is to blame, ranks of the group */
  uint64_t seq;         /* number of the collective; 0 */
  int64_t elapsed;      /* 0 */
  int64_t limit;        /* the time limit in force; 0 */
  const char* text;     /* all of it in one line */
  const char* what;     /* the statement: what was wrong */
  const char* op;
  const char* group;
  const char* expected;
  const char* actual;
  const char* cause;
  const char* next_step; /* one thing to do */
  const char* label;
  const distwrap_seen_rank* seen; /* what some of `ranks` were doing */
  uint64_t seen_count;
  const char* setting; /* what changes the limit: "DISTWRAP_HEARTBEAT" */
  const char* page;    /* of the documentation: "DW-0062" */
} distwrap_error_info;

/* A group. Texts live as long as the handle, of the world as long as the
 * session. */
typedef struct distwrap_group_info {
  uint32_t struct_size;
  int32_t rank; /* mine, in it */
  int32_t size;
  uint32_t reserved;
  uint64_t uid;    /* equal on all members, of no other group of the job */
  int64_t timeout; /* of operations that give none; DW_FOREVER */
  const char* name;
  const char* description;
} distwrap_group_info;

/* A rank's part of a window. */
#define DW_WINDOW_UNIFIED 0  /* this rank can load and store it itself */
#define DW_WINDOW_SEPARATE 1 /* it cannot */
typedef struct distwrap_window_attr {
  uint32_t struct_size;
  int32_t dtype; /* DW_DTYPE_* */
  int64_t count; /* elements */
  int64_t bytes;
  int32_t access; /* DW_WINDOW_* */
  uint32_t reserved;
} distwrap_window_attr;

/* Where a part of an asynchronous operation's output, or of a window, lies. */
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

/* What the bytes of an object are. */
#define DW_OBJECT_BYTES 0   /* any, of the program's own */
#define DW_OBJECT_ENCODED 1 /* one object in the codec of docs/objects.md */

/* What is called once when an operation has ended. `error` is none when it went
 * well, and lives until the callback returns. */
typedef void (*distwrap_callback)(void* user, int32_t code,
                                  distwrap_error error);

/* Looks at bytes of an extension that another rank has sent. */
typedef int32_t (*distwrap_object_check)(void* user,
                                         const distwrap_bytes* bytes);

/* ---- hooks (hooks.h) ---- */

/* A call as hooks see it. What does not apply is "", 0, -1 or NULL. Lives until
 * the callback returns. */
typedef struct distwrap_hooked_call {
  uint32_t struct_size;
  uint32_t kind; /* DW_OP_*; 0 for what is no operation of a communicator */
  uint64_t id;   /* the same in all callbacks of the call, of no other call */
  const char* op;
  const char* group;
  uint64_t group_uid;
  int32_t rank; /* mine, in the group */
  int32_t group_size;
  const distwrap_output* inputs; /* buffers; of a list, one for each rank */
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
  uint64_t batch;   /* of an item: id of its batch */
  uint64_t items;   /* of a batch */
  uint64_t objects; /* that this rank gives */
  uint32_t is_async;
  uint32_t in_place;
  uint32_t exclusive; /* exscan */
  uint32_t reserved;
  const distwrap_group_options* group_options; /* of what makes a group;
                                                  `parent` is not set */
  int64_t color;                               /* split_group_by_color */
  int64_t key;
  uint64_t window; /* of an operation on a window: which */
  int64_t offset;  /* in the target's part */
  int64_t signal;  /* index; -1: the pair's counter */
  uint64_t value;  /* of the signal */
} distwrap_hooked_call;

/* DW_OK, or another DW_<CODE>, which refuses the call; `why` may be set to a
 * text, which lives until the callback's thread is back in the library. */
typedef int32_t (*distwrap_pre_hook)(void* user,
                                     const distwrap_hooked_call* call,
                                     const char** why);
/* `error` is none when it went well, and lives until the callback returns. */
typedef void (*distwrap_post_hook)(void* user, const distwrap_hooked_call* call,
                                   int32_t code, distwrap_error error);

/* A collective in which this rank has waited for others for long; see
 * Straggling in hooks.h. Lives until the callback returns. */
typedef struct distwrap_straggling {
  uint32_t struct_size;
  uint32_t logged; /* this rank has said so on stderr */
  const char* group;
  uint64_t group_uid;
  int32_t rank; /* mine, in the group */
  int32_t group_size;
  const char* op; /* "all_reduce" */
  uint64_t seq;
  const char* label; /* its first characters */
  int64_t waited;
  const distwrap_seen_rank* missing;
  uint64_t missing_count;
  const char* text; /* the line for people */
} distwrap_straggling;
typedef void (*distwrap_straggler_hook)(void* user,
                                        const distwrap_straggling* straggling);

/* Each may be NULL. Of `abort` the call says only which group has broken. */
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
