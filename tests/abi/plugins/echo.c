/* A backend of one rank whose all_reduce answers with the fields that it has
 * read of the operation. C11 and C++20; for any version of the headers.
 *
 * Its constructor creates the file that DW_TEST_MARK names. Each ECHO_<FAULT>
 * below makes a plugin with one fault. */
#include "answer.h"
#include "distwrap/abi/note.h"
#include "distwrap/abi/plugin.h"
#include "distwrap/abi/read.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void leave_mark(void) {
  const char* path = getenv("DW_TEST_MARK");
  if (path != NULL) close(open(path, O_CREAT | O_WRONLY, 0600));
#ifdef ECHO_ABORTS
  abort();
#endif
#ifdef ECHO_HANGS
  for (;;) pause();
#endif
#ifdef ECHO_EXITS
  _exit(0);
#endif
#ifdef ECHO_TALKS
  if (write(STDOUT_FILENO, "hello\n", 6) != 6) abort();
#endif
#ifdef ECHO_THROWS
  throw 1;
#endif
}

#ifdef ECHO_UNDEFINED
void dw_test_nobody_defines_this(void);
#endif

struct dw_backend {
  const dw_host_api* host;
};
struct dw_comm {
  dw_backend* backend;
  int aborted;
};
struct dw_setup {
  dw_comm* comm;
};

static int32_t echo_open(const dw_host_api* host, const dw_open_info* info,
                         dw_backend** backend, dw_error* error) {
  dw_open_info mine;
  const int32_t code =
      dw_read_struct(&mine, (uint32_t)sizeof mine, info, DW_OPEN_INFO_SIZE_1_0);
  (void)error;
  if (code != DW_OK) return code;
  if (host == NULL || host->struct_size < DW_HOST_API_SIZE_1_0)
    return DW_INVALID_ARGUMENT;
  *backend = (dw_backend*)calloc(1, sizeof **backend);
  if (*backend == NULL) return DW_RESOURCE_EXHAUSTED;
  (*backend)->host = host;
#ifdef ECHO_UNDEFINED
  dw_test_nobody_defines_this();
#endif
  return DW_OK;
}

static void echo_close(dw_backend* backend) { free(backend); }

static int32_t echo_caps(dw_backend* backend, const dw_caps_row** rows,
                         uint64_t* n_rows, dw_error* error) {
  static const dw_caps_row kRow = {DW_BIT(DW_OP_ALL_REDUCE),
                                   DW_BIT(DW_DTYPE_U8),
                                   1u << DW_REDUCE_SUM,
                                   0,
                                   1u << DW_DEVICE_CPU,
                                   1,
                                   0,
                                   0};
  (void)backend, (void)error;
  *rows = &kRow;
  *n_rows = 1;
  return DW_OK;
}

static int32_t echo_setup_begin(dw_backend* backend, const dw_setup_info* info,
                                dw_setup** setup, dw_blob* out,
                                dw_error* error) {
  dw_setup_info mine;
  const int32_t code = dw_read_struct(&mine, (uint32_t)sizeof mine, info,
                                      DW_SETUP_INFO_SIZE_1_0);
  (void)error;
  if (code != DW_OK) return code;
  if (mine.size != 1) return DW_UNIMPLEMENTED;
  *setup = (dw_setup*)calloc(1, sizeof **setup);
  if (*setup == NULL) return DW_RESOURCE_EXHAUSTED;
  (*setup)->comm = (dw_comm*)calloc(1, sizeof *(*setup)->comm);
  (*setup)->comm->backend = backend;
  out->data = NULL;
  out->size = 0;
  out->fds = NULL;
  out->n_fds = 0;
  return DW_OK;
}

static int32_t echo_setup_step(dw_setup* setup, const dw_blob* in, uint64_t n,
                               dw_blob* out, dw_setup_result* result,
                               dw_error* error) {
  (void)in, (void)n, (void)out, (void)error;
  result->comm = setup->comm;
  result->window = NULL;
  free(setup);
  return DW_DONE;
}

static void echo_setup_cancel(dw_setup* setup) {
  free(setup->comm);
  free(setup);
}

static int32_t echo_comm_abort(dw_comm* comm, const dw_error* why) {
  (void)why;
  comm->aborted = 1;
  return DW_OK;
}

static int32_t echo_comm_destroy(dw_comm* comm, int64_t deadline_ns,
                                 dw_error* error) {
  (void)deadline_ns, (void)error;
  free(comm);
  return DW_OK;
}

/* Required extensions are refused, since it knows none; others are skipped. */
static int echo_can_skip(const dw_ext* next) {
  for (; next != NULL; next = next->next)
    if ((next->flags & DW_EXT_REQUIRED) != 0) return 0;
  return 1;
}

static int32_t echo_query(dw_comm* comm, const dw_op* op, dw_error* error) {
  dw_op mine;
  const int32_t code =
      dw_read_struct(&mine, (uint32_t)sizeof mine, op, DW_OP_SIZE_1_0);
  (void)comm, (void)error;
  if (code != DW_OK) return code;
  return mine.kind == DW_OP_ALL_REDUCE && echo_can_skip(mine.next)
             ? DW_OK
             : DW_UNIMPLEMENTED;
}

static int32_t echo_submit(dw_comm* comm, const dw_op* op, dw_work* work,
                           dw_error* error) {
  dw_op mine;
  echo_answer answer;
  const int32_t code =
      dw_read_struct(&mine, (uint32_t)sizeof mine, op, DW_OP_SIZE_1_0);
  (void)work;
  if (code != DW_OK) return code;
  if (dw_unknown_flags(mine.flags, DW_FLAG_IN_PLACE | DW_FLAG_CALLER_WAITS))
    return DW_UNIMPLEMENTED;
  if (!echo_can_skip(mine.next)) return DW_UNIMPLEMENTED;
  if (comm->aborted) return DW_ABORTED;
  if (mine.kind != DW_OP_ALL_REDUCE) {
    if (error != NULL) error->code = DW_UNIMPLEMENTED;
    return DW_UNIMPLEMENTED;
  }
  if (mine.out.count != (int64_t)sizeof answer) return DW_INVALID_ARGUMENT;
  answer.plugin_minor = DW_ABI_MINOR;
  answer.own_size = (uint32_t)sizeof mine;
  answer.seen_size = mine.struct_size;
  answer.given_size = op->struct_size;
  answer.seq = mine.seq;
#if DW_ABI_MINOR == 65535
  answer.priority = mine.priority;
#else
  answer.priority = 0;
#endif
  *(echo_answer*)mine.out.data = answer;
  return DW_DONE;
}

#if DW_ABI_MINOR == 65535
static int32_t echo_comm_health(dw_comm* comm, dw_error* error) {
  (void)comm, (void)error;
  return DW_OK;
}
#endif

#ifndef ECHO_NAME
#define ECHO_NAME "echo"
#endif

#ifdef ECHO_LACKS_SUBMIT
#define ECHO_SUBMIT (0 ? echo_submit : NULL)
#else
#define ECHO_SUBMIT echo_submit
#endif

static const dw_str kHints[] = {{"echo.loud", 9}};

static const dw_backend_api kTable = {
#ifdef ECHO_SHORT_TABLE
    .struct_size = DW_BACKEND_API_SIZE_1_0 - 8,
#else
    .struct_size = (uint32_t)sizeof(dw_backend_api),
#endif
#ifdef ECHO_TABLE_OF_MAJOR_2
    .abi_major = 2,
#else
    .abi_major = DW_ABI_MAJOR,
#endif
    .abi_minor = DW_ABI_MINOR,
#if defined(ECHO_UNKNOWN_FLAG)
    .flags = 0x8000u,
#elif defined(ECHO_UNKNOWN_OFFER)
    .flags = 0x80000000u,
#elif defined(ECHO_NEEDS_HEALTH)
    .flags = DW_BACKEND_NEEDS_HEALTH,
#elif defined(DW_BACKEND_KNOWS_HEALTH)
    .flags = DW_BACKEND_KNOWS_HEALTH,
#else
    .flags = 0,
#endif
    .devices = 1u << DW_DEVICE_CPU,
    .name = {ECHO_NAME, sizeof ECHO_NAME - 1},
    .version = {"3.1", 3},
    .hints = kHints,
    .n_hints = 1,
    .open = echo_open,
    .close = echo_close,
    .caps = echo_caps,
    .setup_begin = echo_setup_begin,
    .setup_step = echo_setup_step,
    .setup_cancel = echo_setup_cancel,
    .comm_abort = echo_comm_abort,
    .comm_destroy = echo_comm_destroy,
    .query = echo_query,
    .submit = ECHO_SUBMIT,
    .submit_group = NULL,
    .progress = NULL,
    .wait_fd = NULL,
    .arm = NULL,
    .mem_alloc = NULL,
    .mem_register = NULL,
    .mem_export = NULL,
    .mem_import = NULL,
    .mem_release = NULL,
    .window_create = NULL,
    .window_map = NULL,
    .window_destroy = NULL,
    .plan_create = NULL,
    .plan_start = NULL,
    .plan_destroy = NULL,
    .extension = NULL,
    .work_wait_stream = NULL,
    .pass = NULL,
#if DW_ABI_MINOR >= 1
    .stream_captured = NULL,
    .run_queued = NULL,
#endif
#if DW_ABI_MINOR >= 2
    .plan_run = NULL,
#endif
#if DW_ABI_MINOR == 65535
    .comm_health = echo_comm_health,
#endif
};

/* The entry is written by hand, because the headers of the SDK have no
 * versions. */
#if defined(ECHO_NOTE_OF_MAJOR_2)
DW_PLUGIN_NOTE_OF(2, 0, DW_SANITIZER, 0);
#elif defined(ECHO_NOTE_OF_MSAN)
DW_PLUGIN_NOTE_OF(1, 0, DW_SANITIZER_MEMORY, 0);
#elif defined(ECHO_NOTE_WITH_FLAGS)
DW_PLUGIN_NOTE_OF(1, 0, DW_SANITIZER, 4);
#elif defined(ECHO_UNKNOWN_OFFER)
DW_PLUGIN_NOTE_OF(1, 0, DW_SANITIZER, 0x40000);
#elif !defined(ECHO_LACKS_NOTE)
DW_PLUGIN_NOTE;
#endif

#ifdef ECHO_LACKS_ENTRY
#define dw_plugin_query_v1 dw_plugin_query_v0
#endif
#ifdef __cplusplus
extern "C"
#endif
    __attribute__((visibility("default"))) const dw_backend_api*
    dw_plugin_query_v1(const dw_host_info* host);
const dw_backend_api* dw_plugin_query_v1(const dw_host_info* host) {
#ifdef ECHO_QUERY_THROWS
  throw 1;
#endif
#ifdef ECHO_GIVES_NO_TABLE
  return NULL;
#endif
  return host->abi_major == DW_ABI_MAJOR ? &kTable : NULL;
}
