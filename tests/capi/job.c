/* A whole job in C11 on the ranks that `distwrap run` starts: every family of
 * operations, groups, a split, batches, objects, work with callbacks, errors,
 * the end. Three ranks or more. */
#include <distwrap/c.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static distwrap_error error;
static int32_t me, size;

static void require(int good, int line, const char* text) {
  if (good) return;
  fprintf(stderr, "rank %d, line %d: %s\n", me, line, text);
  exit(1);
}
#define REQUIRE(condition) require(condition, __LINE__, #condition)
#define CALL(call) \
  require((call) == DW_OK, __LINE__, distwrap_error_text(error))

enum { kMost = 8 };
static const distwrap_peer kFirst = {DW_RANK_OF_GROUP, 0};

/* A tensor with the memory for its shape. */
typedef struct Floats {
  float x[kMost * kMost];
  int64_t count;
  distwrap_tensor tensor;
} Floats;

static const distwrap_tensor* floats(Floats* f, int64_t count, float value) {
  for (int64_t i = 0; i < count; ++i) f->x[i] = value;
  f->count = count;
  memset(&f->tensor, 0, sizeof f->tensor);
  f->tensor.data = f->x;
  f->tensor.device.device_type = DW_DEVICE_CPU;
  f->tensor.ndim = 1;
  f->tensor.dtype = distwrap_dtype(DW_DTYPE_F32);
  f->tensor.shape = &f->count;
  return &f->tensor;
}

static int all_are(const Floats* f, float value) {
  for (int64_t i = 0; i < f->count; ++i)
    if (f->x[i] < value || f->x[i] > value) return 0;
  return 1;
}

static float sum_of_ranks(void) { return (float)(size * (size - 1) / 2); }

static void reductions(void) {
  Floats a, b;
  const distwrap_tensor* in = floats(&a, 4, (float)me);
  const distwrap_tensor* out = floats(&b, 4, -1);
  CALL(distwrap_all_reduce(out, in, DW_REDUCE_SUM, NULL, NULL, &error));
  REQUIRE(all_are(&b, sum_of_ranks()) && all_are(&a, (float)me));
  CALL(distwrap_reduce(me == 0 ? out : NULL, in, kFirst, DW_REDUCE_MAX, NULL,
                       NULL, &error));
  REQUIRE(me != 0 || all_are(&b, (float)(size - 1)));
  CALL(distwrap_scan(out, in, DW_REDUCE_SUM, NULL, NULL, &error));
  REQUIRE(all_are(&b, (float)(me * (me + 1) / 2)));
  CALL(distwrap_exscan(out, in, DW_REDUCE_SUM, NULL, NULL, &error));
  REQUIRE(me == 0 || all_are(&b, (float)(me * (me - 1) / 2)));
  const double half = 0.5;
  distwrap_op_options options = {.struct_size = sizeof options,
                                 .factor = &half};
  CALL(distwrap_all_reduce(out, in, DW_REDUCE_PREMUL_SUM, &options, NULL,
                           &error));
  REQUIRE(all_are(&b, sum_of_ranks() / 2));
  CALL(
      distwrap_broadcast(out, me == 0 ? in : NULL, kFirst, NULL, NULL, &error));
  REQUIRE(all_are(&b, 0));
  CALL(distwrap_barrier(NULL, NULL, &error));
  CALL(distwrap_monitored_barrier(NULL, &error));
}

static void gathers_and_scatters(void) {
  Floats own, all, parts[kMost];
  const distwrap_tensor* list[kMost];
  int64_t counts[kMost];
  for (int32_t r = 0; r < size; ++r) {
    list[r] = floats(&parts[r], 2, -1);
    counts[r] = 2;
  }
  const uint64_t n = (uint64_t)size;
  const distwrap_tensor* in = floats(&own, 2, (float)me);
  const distwrap_tensor* out = floats(&all, 2 * size, -1);
  CALL(distwrap_all_gather(list, n, in, NULL, NULL, &error));
  for (int32_t r = 0; r < size; ++r) REQUIRE(all_are(&parts[r], (float)r));
  CALL(distwrap_all_gather_into_tensor(out, in, NULL, NULL, &error));
  for (int32_t i = 0; i < 2 * size; ++i) REQUIRE((int32_t)all.x[i] == i / 2);
  CALL(distwrap_all_gather_v(out, in, counts, n, NULL, NULL, &error));
  CALL(distwrap_gather(me == 0 ? list : NULL, me == 0 ? n : 0, in,
                       (distwrap_peer){0, 0}, NULL, NULL, &error));
  CALL(distwrap_gather_into_tensor(out, in, kFirst, NULL, 0, NULL, NULL,
                                   &error));
  CALL(distwrap_scatter(in, me == 0 ? list : NULL, me == 0 ? n : 0, kFirst,
                        NULL, NULL, &error));
  REQUIRE(all_are(&own, (float)me));
  CALL(distwrap_scatter_tensor(in, out, kFirst, counts, n, NULL, NULL, &error));
  REQUIRE(all_are(&own, (float)me));
  CALL(distwrap_reduce_scatter(in, list, n, DW_REDUCE_SUM, NULL, NULL, &error));
  out = floats(&all, 2 * size, 1);
  CALL(distwrap_reduce_scatter_tensor(in, out, DW_REDUCE_SUM, NULL, NULL,
                                      &error));
  REQUIRE(all_are(&own, (float)size));
  CALL(distwrap_reduce_scatter_v(in, out, counts, n, DW_REDUCE_MIN, NULL, NULL,
                                 &error));
  REQUIRE(all_are(&own, 1));
}

static void exchanges(void) {
  Floats send, receive, to[kMost], from[kMost];
  const distwrap_tensor *outs[kMost], *ins[kMost];
  int64_t splits[kMost];
  for (int32_t r = 0; r < size; ++r) {
    ins[r] = floats(&to[r], 1, (float)(10 * me + r));
    outs[r] = floats(&from[r], 1, -1);
    splits[r] = 1;
  }
  const uint64_t n = (uint64_t)size;
  CALL(distwrap_all_to_all(outs, n, ins, n, NULL, NULL, &error));
  for (int32_t r = 0; r < size; ++r)
    REQUIRE(all_are(&from[r], (float)(10 * r + me)));
  const distwrap_tensor* in = floats(&send, size, (float)me);
  const distwrap_tensor* out = floats(&receive, size, -1);
  CALL(distwrap_all_to_all_single(out, in, NULL, 0, NULL, 0, NULL, NULL,
                                  &error));
  CALL(distwrap_all_to_all_single(out, in, splits, n, splits, n, NULL, NULL,
                                  &error));
  for (int32_t r = 0; r < size; ++r) REQUIRE((int32_t)receive.x[r] == r);
}

static void messages(void) {
  Floats a, b;
  const distwrap_tensor* in = floats(&a, 3, (float)me);
  const distwrap_tensor* out = floats(&b, 3, -1);
  const distwrap_peer next = {DW_RANK_OF_WORLD, (me + 1) % size};
  const distwrap_peer last = {DW_RANK_OF_GROUP, (me + size - 1) % size};
  distwrap_work works[2];
  CALL(distwrap_irecv(out, last, 5, NULL, &works[0], &error));
  CALL(distwrap_isend(in, next, 5, NULL, &works[1], &error));
  CALL(distwrap_wait_all(works, 2, DW_FOREVER, &error));
  REQUIRE(all_are(&b, (float)last.rank));
  for (int i = 0; i < 2; ++i) REQUIRE(distwrap_work_free(works[i]) == DW_OK);

  if (me == 0) CALL(distwrap_send(in, next, 0, NULL, &error));
  int32_t source = -1;
  if (me == 1) CALL(distwrap_recv(out, last, 0, NULL, &source, &error));
  REQUIRE(me != 1 || source == 0);

  const distwrap_p2p_op ops[] = {
      {.tensor = in, .peer = next, .tag = 1, .kind = DW_ISEND},
      {.tensor = out, .peer = last, .tag = 1, .kind = DW_IRECV}};
  CALL(distwrap_batch_isend_irecv(ops, 2, NULL, works, &error));
  uint64_t first = 9;
  CALL(distwrap_wait_any(works, 2, DW_FOREVER, &first, &error));
  REQUIRE(first < 2);
  distwrap_work both;
  CALL(distwrap_work_all(works, 2, &both, &error));
  CALL(distwrap_work_wait(both, DW_FOREVER, &error));
  distwrap_work_free(both);
  for (int i = 0; i < 2; ++i) distwrap_work_free(works[i]);
}

static void groups(void) {
  int32_t ranks[kMost];
  for (int32_t r = 0; r < size; ++r) ranks[r] = size - 1 - r;
  const uint64_t lists[] = {(uint64_t)(size - 1), 1};
  distwrap_group_options options = {.struct_size = sizeof options,
                                    .ranks = ranks,
                                    .ranks_count = (uint64_t)size,
                                    .list_sizes = lists,
                                    .lists = 2,
                                    .description = "turned"};
  distwrap_group group, again, all, parent, children[2];
  CALL(distwrap_split_group(&options, &group, &error));
  distwrap_group_info info = {.struct_size = sizeof info};
  CALL(distwrap_group_read(group, &info, &error));
  REQUIRE(strcmp(info.description, "turned") == 0);
  REQUIRE(info.rank == (me == 0 ? 0 : size - 1 - me));
  REQUIRE(info.size == (me == 0 ? 1 : size - 1));
  REQUIRE(distwrap_get_rank(group) == info.rank);
  REQUIRE(distwrap_get_world_size(group) == info.size);

  Floats f;
  const distwrap_tensor* t = floats(&f, 2, 1);
  distwrap_op_options how = {.struct_size = sizeof how, .group = group};
  CALL(distwrap_all_reduce(t, t, DW_REDUCE_SUM, &how, NULL, &error));
  REQUIRE(all_are(&f, (float)info.size));

  uint64_t count = 0;
  int32_t found[kMost], rank = -1;
  CALL(distwrap_get_process_group_ranks(group, found, kMost, &count, &error));
  REQUIRE((int32_t)count == info.size && found[info.rank] == me);
  CALL(distwrap_get_group_rank(group, me, &rank, &error));
  REQUIRE(rank == info.rank);
  CALL(distwrap_get_global_rank(group, rank, &rank, &error));
  REQUIRE(rank == me);
  CALL(distwrap_group_parent(group, &parent, &error));
  CALL(distwrap_group_children(parent, children, 2, &count, &error));
  REQUIRE(count == 1 && distwrap_group_free(children[0]) == DW_OK);
  CALL(distwrap_group_set_data(group, "answer", &f, &error));
  void* data = NULL;
  CALL(distwrap_group_get_data(group, "answer", &data, &error));
  REQUIRE(data == &f);
  CALL(distwrap_set_timeout(group, 5000000000, &error));

  options = (distwrap_group_options){.struct_size = sizeof options};
  CALL(distwrap_split_group_by_color(me % 2, 0, &options, &again, &error));
  CALL(distwrap_new_group(NULL, &all, &error));
  REQUIRE(distwrap_get_world_size(all) == size);

  distwrap_list list;
  distwrap_bytes item;
  const distwrap_device cpu = {DW_DEVICE_CPU, 0};
  CALL(distwrap_get_backend(NULL, cpu, &list, &error));
  CALL(distwrap_list_item(list, 0, &item, &error));
  REQUIRE(item.size == strlen((const char*)item.data) && item.size > 0);
  distwrap_list_free(list);
  CALL(distwrap_capabilities(NULL, cpu, &list, &error));
  REQUIRE(distwrap_list_size(list) > 10);
  int sums = 0;
  for (uint64_t i = 0; i < distwrap_list_size(list); ++i) {
    CALL(distwrap_list_item(list, i, &item, &error));
    if (strcmp((const char*)item.data, "barrier") == 0) ++sums;
    if (strncmp((const char*)item.data, "all_reduce/sum u8 ", 18) == 0) ++sums;
  }
  REQUIRE(sums == 2);
  distwrap_list_free(list);
  CALL(distwrap_group_backends(NULL, &list, &error));
  distwrap_list_free(list);
  CALL(distwrap_parse_backend("loopback", &list, &error));
  CALL(distwrap_list_item(list, 0, &item, &error));
  REQUIRE(strcmp((const char*)item.data, "cpu:loopback") == 0);
  distwrap_list_free(list);

  CALL(distwrap_destroy_process_group(group, &error));
  REQUIRE(distwrap_all_reduce(t, t, DW_REDUCE_SUM, &how, NULL, &error) ==
          DW_FAILED_PRECONDITION);
  REQUIRE(distwrap_error_reason(error) == DW_REASON_GROUP_CLOSED);
  distwrap_error_free(error);
  REQUIRE(distwrap_group_free(group) == DW_OK);
  REQUIRE(distwrap_group_free(parent) == DW_OK);
  REQUIRE(distwrap_group_free(again) == DW_OK);
  REQUIRE(distwrap_group_free(all) == DW_OK);
}

static void batches(void) {
  Floats sum, send, receive;
  const distwrap_tensor* t = floats(&sum, 2, 1);
  const distwrap_tensor* in = floats(&send, 1, (float)me);
  const distwrap_tensor* out = floats(&receive, 1, -1);
  const distwrap_peer next = {DW_RANK_OF_GROUP, (me + 1) % size};
  const distwrap_peer last = {DW_RANK_OF_GROUP, (me + size - 1) % size};
  distwrap_batch batch;
  CALL(distwrap_batch_create(&batch, &error));
  distwrap_op_options how = {.struct_size = sizeof how, .batch = batch};
  CALL(distwrap_send(in, next, 0, &how, &error));
  CALL(distwrap_recv(out, last, 0, &how, NULL, &error));
  CALL(distwrap_all_reduce(t, t, DW_REDUCE_SUM, &how, NULL, &error));
  REQUIRE(distwrap_batch_size(batch) == 3);
  distwrap_work all, item;
  CALL(distwrap_batch_submit(batch, &all, &error));
  CALL(distwrap_work_wait(all, DW_FOREVER, &error));
  CALL(distwrap_batch_item(batch, 2, &item, &error));
  CALL(distwrap_work_status(item, &error));
  REQUIRE(all_are(&sum, (float)size) && all_are(&receive, (float)last.rank));
  REQUIRE(distwrap_batch_submit(batch, NULL, &error) == DW_FAILED_PRECONDITION);
  distwrap_error_free(error);
  distwrap_work_free(item);
  distwrap_work_free(all);
  REQUIRE(distwrap_batch_free(batch) == DW_OK);
}

/* Rank `from` has so many elements for rank `to`. */
static int64_t piece(int32_t from, int32_t to) { return (from + 2 * to) % 3; }

/* Whether the elements of all ranks came, in the call with this number. */
static int came(const Floats* f, int call) {
  int64_t i = 0;
  for (int32_t r = 0; r < size; ++r)
    for (int64_t k = 0; k < piece(r, me); ++k, ++i)
      if ((int)f->x[i] != 100 * call + r) return 0;
  return i == f->count;
}

static void prepared_operations(void) {
  Floats send, receive, other_send, other_receive;
  int64_t to[kMost], from[kMost], sent = 0, received = 0;
  for (int32_t r = 0; r < size; ++r) {
    sent += to[r] = piece(me, r);
    received += from[r] = piece(r, me);
  }
  const uint64_t n = (uint64_t)size;
  const distwrap_tensor* in = floats(&send, sent, -1);
  const distwrap_tensor* out = floats(&receive, received, -1);
  distwrap_batch batch;
  CALL(distwrap_batch_create(&batch, &error));
  distwrap_op_options how = {
      .struct_size = sizeof how, .batch = batch, .label = "rows"};
  CALL(distwrap_all_to_all_single(out, in, from, n, to, n, &how, NULL, &error));
  distwrap_prepared exchange;
  CALL(distwrap_batch_prepare(batch, &exchange, &error));
  REQUIRE(distwrap_batch_free(batch) == DW_OK);
  for (int call = 1; call < 6; ++call) {
    floats(&send, sent, (float)(100 * call + me));
    floats(&receive, received, -1);
    CALL(distwrap_prepared_start(exchange, NULL, NULL, NULL, NULL, &error));
    REQUIRE(came(&receive, call));
    const distwrap_tensor* from_others =
        floats(&other_send, sent, (float)(100 * call + me));
    const distwrap_tensor* to_others = floats(&other_receive, received, -1);
    distwrap_op_options limited = {.struct_size = sizeof limited,
                                   .timeout = 60000000000,
                                   .label = "other rows"};
    distwrap_work work;
    CALL(distwrap_prepared_start(exchange, to_others, from_others, &limited,
                                 &work, &error));
    CALL(distwrap_work_wait(work, DW_FOREVER, &error));
    REQUIRE(came(&other_receive, call));
    distwrap_work_free(work);
  }
  /* While a start uses the buffers there is no second one on them. */
  floats(&send, sent, (float)(100 + me));
  floats(&receive, received, -1);
  distwrap_work work, second;
  if (me == 0) {
    CALL(distwrap_prepared_start(exchange, NULL, NULL, NULL, &work, &error));
    REQUIRE(distwrap_prepared_start(exchange, NULL, NULL, NULL, &second,
                                    &error) == DW_INVALID_ARGUMENT);
    REQUIRE(second == NULL);
    REQUIRE(strstr(distwrap_error_text(error), "still uses") != NULL);
    REQUIRE(strstr(distwrap_error_text(error), "rows") != NULL);
    distwrap_error_free(error);
  }
  Floats word;
  const distwrap_tensor* go = floats(&word, 1, 0);
  for (int32_t r = 1; r < size; ++r) {
    const distwrap_peer peer = {DW_RANK_OF_GROUP, me == 0 ? r : 0};
    if (me == 0) CALL(distwrap_send(go, peer, 0, NULL, &error));
    if (me == r) CALL(distwrap_recv(go, peer, 0, NULL, NULL, &error));
  }
  if (me != 0)
    CALL(distwrap_prepared_start(exchange, NULL, NULL, NULL, &work, &error));
  /* The start goes on without the handle. */
  REQUIRE(distwrap_prepared_free(exchange) == DW_OK);
  CALL(distwrap_work_wait(work, DW_FOREVER, &error));
  REQUIRE(came(&receive, 1));
  distwrap_work_free(work);
  REQUIRE(distwrap_prepared_start(exchange, NULL, NULL, NULL, NULL, &error) ==
          DW_INVALID_ARGUMENT);
  distwrap_error_free(error);
}

/* Ranks of which only one has an input, and ranks that prepare other calls. */
static void prepared_differences(void) {
  Floats own, all;
  const distwrap_tensor* out = floats(&own, 2, -1);
  const distwrap_tensor* in = me == 0 ? floats(&all, 2 * size, 3) : NULL;
  distwrap_batch batch;
  CALL(distwrap_batch_create(&batch, &error));
  distwrap_op_options how = {.struct_size = sizeof how, .batch = batch};
  CALL(distwrap_scatter_tensor(out, in, kFirst, NULL, 0, &how, NULL, &error));
  distwrap_prepared scattered;
  CALL(distwrap_batch_prepare(batch, &scattered, &error));
  distwrap_batch_free(batch);
  Floats other;
  CALL(distwrap_prepared_start(scattered, floats(&other, 2, -1), in, NULL, NULL,
                               &error));
  REQUIRE(all_are(&other, 3) && all_are(&own, -1));
  distwrap_prepared_free(scattered);

  CALL(distwrap_batch_create(&batch, &error));
  how.batch = batch;
  CALL(distwrap_all_reduce(out, out, me == 1 ? DW_REDUCE_MAX : DW_REDUCE_SUM,
                           &how, NULL, &error));
  REQUIRE(distwrap_batch_prepare(batch, &scattered, &error) != DW_OK);
  REQUIRE(scattered == NULL);
  REQUIRE(distwrap_error_reason(error) == DW_REASON_CALL_MISMATCH);
  distwrap_error_free(error);
  distwrap_batch_free(batch);
  CALL(distwrap_barrier(NULL, NULL, &error));
}

static void objects(void) {
  char text[32];
  snprintf(text, sizeof text, "rank %d", me);
  const distwrap_bytes own = {text, strlen(text)};
  distwrap_list list;
  distwrap_bytes item;
  CALL(distwrap_all_gather_object(&own, DW_OBJECT_BYTES, NULL, &list, &error));
  REQUIRE(distwrap_list_size(list) == (uint64_t)size);
  CALL(distwrap_list_item(list, 1, &item, &error));
  REQUIRE(strcmp((const char*)item.data, "rank 1") == 0);
  distwrap_list_free(list);
  CALL(distwrap_gather_object(&own, DW_OBJECT_BYTES, kFirst, NULL, &list,
                              &error));
  REQUIRE(distwrap_list_size(list) == (me == 0 ? (uint64_t)size : 0));
  distwrap_list_free(list);
  distwrap_bytes many[kMost];
  for (int32_t r = 0; r < size; ++r) many[r] = own;
  CALL(distwrap_broadcast_object_list(me == 0 ? many : NULL, 2, DW_OBJECT_BYTES,
                                      kFirst, NULL, &list, &error));
  CALL(distwrap_list_item(list, 1, &item, &error));
  REQUIRE(strcmp((const char*)item.data, "rank 0") == 0);
  distwrap_list_free(list);
  CALL(distwrap_scatter_object_list(
      me == 0 ? many : NULL, me == 0 ? (uint64_t)size : 0, DW_OBJECT_BYTES,
      kFirst, NULL, &list, &error));
  REQUIRE(distwrap_list_size(list) == 1);
  distwrap_list_free(list);
  const distwrap_peer second = {DW_RANK_OF_GROUP, 1};
  if (me == 0)
    CALL(distwrap_send_object_list(&own, 1, DW_OBJECT_BYTES, second, NULL,
                                   &error));
  if (me == 1) {
    CALL(distwrap_recv_object_list(1, DW_OBJECT_BYTES, kFirst, NULL, &list,
                                   &error));
    CALL(distwrap_list_item(list, 0, &item, &error));
    REQUIRE(strcmp((const char*)item.data, "rank 0") == 0);
    distwrap_list_free(list);
  }
}

static atomic_int called;

static void done(void* user, int32_t code, distwrap_error failed) {
  REQUIRE(code == DW_OK && failed == NULL && distwrap_is_available());
  atomic_fetch_add((atomic_int*)user, 1);
}

static void work(void) {
  Floats f;
  const distwrap_tensor* t = floats(&f, 2, 1);
  distwrap_work begun;
  CALL(distwrap_all_reduce(t, t, DW_REDUCE_SUM, NULL, &begun, &error));
  CALL(distwrap_work_on_done(begun, done, &called, &error));
  CALL(distwrap_work_wait(begun, DW_FOREVER, &error));
  CALL(distwrap_work_wait(begun, 0, &error));
  int32_t state = -1, ended = 0;
  uint64_t count = 0, seq = 0;
  CALL(distwrap_work_state(begun, &state, &error));
  CALL(distwrap_work_test(begun, &ended, &error));
  REQUIRE(state == DW_WORK_DONE && ended == 1);
  distwrap_output output;
  CALL(distwrap_work_result(begun, &output, 1, &count, &error));
  REQUIRE(count <= 1 && (count == 0 || output.data == f.x));
  CALL(distwrap_work_seq(begun, &seq, &error));
  int32_t fd = -1;
  if (distwrap_work_event_fd(begun, &fd, &error) == DW_OK) {
    struct pollfd events = {.fd = fd, .events = POLLIN};
    REQUIRE(poll(&events, 1, -1) == 1);
  } else {
    distwrap_error_free(error); /* the operation ended inside the call */
  }
  REQUIRE(distwrap_work_cancel(begun, &error) == DW_FAILED_PRECONDITION);
  distwrap_error_free(error);
  REQUIRE(distwrap_work_free(begun) == DW_OK);
  REQUIRE(all_are(&f, (float)size));
}

static int32_t only_small(void* user, const distwrap_bytes* bytes) {
  (void)user;
  return bytes->size <= 4 ? DW_OK : DW_INVALID_ARGUMENT;
}

static int freed = 0;

static void count_freed(void* data) { freed += *(int*)data; }

/* Data that the registry frees: when it is replaced, when its group ends, and
 * when the call fails. The handle tells the session. */
static void owned_data(void) {
  int one = 1, ten = 10;
  void* data = NULL;
  distwrap_store store;
  CALL(distwrap_store_in_memory(&store, &error));
  const distwrap_init_options options = {.struct_size = sizeof options,
                                         .has_rank = 1,
                                         .world_size = 1,
                                         .store = store};
  distwrap_session own;
  distwrap_group world;
  CALL(distwrap_session_create(&options, &own, &error));
  CALL(distwrap_session_world(own, &world, &error));
  CALL(distwrap_group_set_owned_data(world, "k", &one, count_freed, &error));
  CALL(distwrap_group_get_data(world, "k", &data, &error));
  REQUIRE(data == &one && freed == 0);
  CALL(distwrap_group_set_owned_data(world, "k", &ten, count_freed, &error));
  REQUIRE(freed == 1);
  REQUIRE(distwrap_group_set_owned_data(world, NULL, &one, count_freed, NULL) ==
          DW_INVALID_ARGUMENT);
  REQUIRE(freed == 2);
  REQUIRE(distwrap_session_is_open(own) == 1);
  CALL(distwrap_session_close(own, DW_FOREVER, &error));
  REQUIRE(freed == 12 && distwrap_session_is_open(own) == 0);
  REQUIRE(distwrap_session_is_open(NULL) == 0);
  distwrap_group_free(world);
  REQUIRE(distwrap_session_free(own) == DW_OK);
  REQUIRE(distwrap_store_free(store) == DW_OK);
}

/* The number of texts of the guard's state that begin so. */
static int guard_texts(const char* beginning) {
  distwrap_list list;
  int count = 0;
  CALL(distwrap_guard_status(&list, &error));
  for (uint64_t i = 0; i < distwrap_list_size(list); ++i) {
    distwrap_bytes item;
    CALL(distwrap_list_item(list, i, &item, &error));
    count += strncmp((const char*)item.data, beginning, strlen(beginning)) == 0;
  }
  distwrap_list_free(list);
  return count;
}

/* The guard's wishes, scopes and state. With the door, which `distwrap run
 * --guard` loads, the state has its file and functions. */
static void guard(void) {
  distwrap_store store;
  CALL(distwrap_store_in_memory(&store, &error));
  distwrap_init_options options = {.struct_size = sizeof options,
                                   .has_rank = 1,
                                   .world_size = 1,
                                   .store = store,
                                   .guard = DW_GUARD_REQUIRE + 1};
  distwrap_session own;
  REQUIRE(distwrap_session_create(&options, &own, &error) ==
          DW_INVALID_ARGUMENT);
  const int has_door = guard_texts("door /") == 1;
  const int is_off = guard_texts("mode off"); /* the job itself may guard */
  REQUIRE(guard_texts("guarded MPI MPI_Send distwrap_send") == has_door);
  options.guard = DW_GUARD_REQUIRE;
  if (has_door) {
    CALL(distwrap_session_create(&options, &own, &error));
    REQUIRE(guard_texts("mode require") == 1);
    REQUIRE(distwrap_session_guard(own) == DW_GUARD_REQUIRE);
    CALL(distwrap_session_close(own, DW_FOREVER, &error));
    distwrap_session_free(own);
  } else {
    REQUIRE(distwrap_session_create(&options, &own, &error) ==
            DW_UNIMPLEMENTED);
    REQUIRE(distwrap_error_reason(error) == DW_REASON_DIRECT_CALL);
  }
  REQUIRE(guard_texts("mode off") == is_off);
  options.guard = DW_GUARD_WARN;
  CALL(distwrap_session_create(&options, &own, &error));
  REQUIRE(guard_texts("mode warn") == is_off);
  CALL(distwrap_guard_enter("outer", &error));
  CALL(distwrap_guard_enter("inner", &error));
  REQUIRE(guard_texts("scope ") == 2 && guard_texts("scope inner") == 1);
  CALL(distwrap_guard_leave(&error));
  CALL(distwrap_guard_leave(&error));
  REQUIRE(distwrap_guard_leave(&error) == DW_INVALID_ARGUMENT);
  REQUIRE(distwrap_guard_enter(NULL, &error) == DW_INVALID_ARGUMENT);
  REQUIRE(distwrap_guard_exempt(NULL, &error) == DW_INVALID_ARGUMENT);
  REQUIRE(distwrap_guard_status(NULL, &error) == DW_INVALID_ARGUMENT);
  CALL(distwrap_guard_exempt("libsolver", &error));
  REQUIRE(distwrap_session_guard(own) == DW_GUARD_WARN);
  CALL(distwrap_session_close(own, DW_FOREVER, &error));
  REQUIRE(distwrap_session_guard(own) == DW_GUARD_OFF);
  REQUIRE(distwrap_session_guard(NULL) == DW_GUARD_OFF);
  REQUIRE(guard_texts("mode off") == is_off && guard_texts("scope") == 0);
  distwrap_session_free(own);
  REQUIRE(distwrap_store_free(store) == DW_OK);
}

static void registry(void) {
  uint64_t count = 0, before = 0;
  int32_t ranks[kMost];
  distwrap_list list;
  distwrap_bytes item;
  CALL(distwrap_registered_groups(&before, &error));
  CALL(distwrap_registered_ranks(NULL, ranks, kMost, &count, &error));
  REQUIRE(count == (uint64_t)size && ranks[size - 1] == size - 1);
  distwrap_group group;
  CALL(distwrap_new_group(NULL, &group, &error));
  CALL(distwrap_registered_groups(&count, &error));
  REQUIRE(count == before + 1);
  CALL(distwrap_unregister_group(group, &error));
  REQUIRE(distwrap_registered_ranks(group, ranks, kMost, &count, &error) ==
          DW_FAILED_PRECONDITION);
  REQUIRE(distwrap_error_reason(error) == DW_REASON_GROUP_UNKNOWN);
  distwrap_error_free(error);
  CALL(distwrap_register_group(group, ranks, (uint64_t)size, "mine", &error));
  CALL(distwrap_registered_description(group, &list, &error));
  CALL(distwrap_list_item(list, 0, &item, &error));
  REQUIRE(strcmp((const char*)item.data, "mine") == 0);
  distwrap_list_free(list);
  /* A batch on this group: its operations name no group. */
  distwrap_batch batch;
  CALL(distwrap_batch_create(&batch, &error));
  CALL(distwrap_batch_on(batch, group, &error));
  const distwrap_op_options how = {.struct_size = sizeof how, .batch = batch};
  Floats f;
  const distwrap_tensor* t = floats(&f, 2, 1);
  CALL(distwrap_all_reduce(t, t, DW_REDUCE_SUM, &how, NULL, &error));
  CALL(distwrap_batch_submit(batch, NULL, &error));
  REQUIRE(all_are(&f, (float)size));
  REQUIRE(distwrap_batch_free(batch) == DW_OK);
  CALL(distwrap_destroy_process_group(group, &error));
  distwrap_group_free(group);

  const distwrap_pair backends[] = {{"cpu", "gloo"}, {"cuda", "nccl"}};
  CALL(distwrap_format_backend(backends, 2, &list, &error));
  CALL(distwrap_list_item(list, 0, &item, &error));
  REQUIRE(strcmp((const char*)item.data, "cpu:gloo,cuda:nccl") == 0);
  distwrap_list_free(list);
  distwrap_peer peer;
  const int32_t two = 2;
  CALL(distwrap_choose_peer(NULL, &two, "src", &peer, &error));
  REQUIRE(peer.numbering == DW_RANK_OF_GROUP && peer.rank == 2);
  CALL(distwrap_choose_peer(NULL, NULL, "src", &peer, &error));
  REQUIRE(peer.numbering == 0);
  REQUIRE(distwrap_choose_peer(&two, &two, "src", &peer, &error) ==
          DW_INVALID_ARGUMENT);
  REQUIRE(distwrap_error_reason(error) == DW_REASON_ROOT_BOTH);
  distwrap_error_free(error);
  CALL(distwrap_save_recording(NULL, &list, &error));
  REQUIRE(distwrap_list_size(list) == 1);
  distwrap_list_free(list);
  CALL(distwrap_register_object_type("small", only_small, NULL, &error));
  REQUIRE(distwrap_register_object_type("small", only_small, NULL, &error) ==
          DW_INVALID_ARGUMENT);
  distwrap_error_free(error);
}

static int32_t seen_calls;

static int32_t before(void* user, const distwrap_hooked_call* call,
                      const char** why) {
  (void)why;
  REQUIRE(call->group_size == size && call->rank == me);
  if (strcmp(call->op, "all_reduce") == 0)
    REQUIRE(call->inputs_count == 1 && call->inputs[0].count == 2 &&
            call->reduction == DW_REDUCE_SUM && call->is_async == 1);
  ++*(int32_t*)user;
  return DW_OK;
}

static void after(void* user, const distwrap_hooked_call* call, int32_t code,
                  distwrap_error failed) {
  REQUIRE(code == DW_OK && failed == NULL && call->id != 0);
  ++*(int32_t*)user;
}

static void hooks(void) {
  const distwrap_hooks callbacks = {.struct_size = sizeof callbacks,
                                    .user = &seen_calls,
                                    .pre = before,
                                    .post = after};
  distwrap_hook hook;
  CALL(distwrap_add_hook(NULL, &callbacks, &hook, &error));
  Floats f;
  const distwrap_tensor* t = floats(&f, 2, 1);
  distwrap_work begun;
  CALL(distwrap_all_reduce(t, t, DW_REDUCE_SUM, NULL, &begun, &error));
  CALL(distwrap_work_wait(begun, DW_FOREVER, &error));
  REQUIRE(distwrap_work_free(begun) == DW_OK);
  REQUIRE(distwrap_hook_free(hook) == DW_OK);
  CALL(distwrap_barrier(NULL, NULL, &error));
  REQUIRE(seen_calls == 2);
}

/* Rank 0 waits for rank 1, which waits until a hook has noticed that. */
static atomic_int noticed;

static void notice(void* user, const distwrap_straggling* waits) {
  REQUIRE(user == &noticed && waits->struct_size >= sizeof *waits);
  REQUIRE(strcmp(waits->group, "job") == 0 && waits->group_size == size);
  REQUIRE(strcmp(waits->op, "barrier") == 0 && waits->seq > 0);
  REQUIRE(strcmp(waits->label, "late") == 0 && waits->waited > 0);
  REQUIRE(waits->rank == me && waits->missing_count >= 1);
  const distwrap_seen_rank* one = waits->missing; /* others may be late too */
  while (one->rank != 1 && one < waits->missing + waits->missing_count) ++one;
  REQUIRE(one->rank == 1 && one->global_rank == 1 && one->pid > 0);
  REQUIRE(one->doing == DW_SEEN_DONE || one->doing == DW_SEEN_INSIDE);
  REQUIRE(one->seq == waits->seq - 1);
  REQUIRE(strstr(waits->text, "barrier #") != NULL);
  if (me != 0 || atomic_fetch_add(&noticed, 1) != 0) return;
  Floats f;
  const distwrap_peer late = {.numbering = DW_RANK_OF_GROUP, .rank = 1};
  CALL(distwrap_send(floats(&f, 1, 1), late, 7, NULL, &error));
}

static void stragglers(void) {
  const distwrap_hooks callbacks = {
      .struct_size = sizeof callbacks, .user = &noticed, .straggler = notice};
  distwrap_hook hook;
  CALL(distwrap_barrier(NULL, NULL, &error));
  CALL(distwrap_add_hook(NULL, &callbacks, &hook, &error));
  const distwrap_op_options how = {.struct_size = sizeof how, .label = "late"};
  if (me == 1) {
    Floats f;
    const distwrap_peer first = {.numbering = DW_RANK_OF_GROUP, .rank = 0};
    CALL(distwrap_recv(floats(&f, 1, 0), first, 7, NULL, NULL, &error));
  }
  CALL(distwrap_barrier(&how, NULL, &error));
  REQUIRE(distwrap_hook_free(hook) == DW_OK);
  REQUIRE(atomic_load(&noticed) == (me == 0 ? 1 : 0));
}

/* A ring of puts with signals, and a counter to which all ranks add. */
static void windows(void) {
  distwrap_window_options how = {
      .struct_size = sizeof how, .dtype = DW_DTYPE_F32, .count = 4};
  distwrap_window window;
  CALL(distwrap_new_window(&how, &window, &error));
  Floats f;
  const distwrap_tensor* t = floats(&f, 2, (float)me);
  const distwrap_peer next = {DW_RANK_OF_GROUP, (me + 1) % size};
  const int32_t before = (me + size - 1) % size;
  CALL(distwrap_window_put_signal(window, t, next, 2, 5, 1, DW_SIGNAL_ADD, NULL,
                                  NULL, &error));
  CALL(distwrap_window_wait_signal(window, 5, DW_COMPARE_EQ, 1, NULL, NULL,
                                   &error));
  distwrap_output mine;
  CALL(distwrap_window_memory(window, &mine, &error));
  REQUIRE(mine.count == 4 && ((float*)mine.data)[3] == (float)before);
  Floats g;
  const distwrap_tensor* got = floats(&g, 2, -1);
  distwrap_work reading;
  CALL(distwrap_window_get(window, got, next, 2, NULL, &reading, &error));
  CALL(distwrap_work_wait(reading, DW_FOREVER, &error));
  REQUIRE(distwrap_work_free(reading) == DW_OK);
  REQUIRE(g.x[1] == (float)me);
  CALL(distwrap_window_signal(window, next, 0, 7, DW_SIGNAL_SET, NULL, NULL,
                              &error));
  CALL(distwrap_window_wait_signal(window, 0, DW_COMPARE_GE, 7, NULL, NULL,
                                   &error));
  CALL(distwrap_window_signal_pair(window, next, NULL, NULL, &error));
  CALL(distwrap_window_put_signal_pair(window, t, next, 0, NULL, NULL, &error));
  const distwrap_peer from = {DW_RANK_OF_GROUP, before};
  CALL(distwrap_window_wait_pair(window, from, NULL, NULL, &error));
  CALL(distwrap_window_wait_pair(window, from, NULL, NULL, &error));
  CALL(distwrap_window_put(window, t, next, 0, NULL, NULL, &error));
  CALL(distwrap_window_fence(window, NULL, NULL, &error));
  CALL(distwrap_window_flush(window, next, NULL, NULL, &error));
  const distwrap_peer all = {0, 0};
  CALL(distwrap_window_flush(window, all, NULL, NULL, &error));
  distwrap_window_attr attr = {.struct_size = sizeof attr};
  CALL(distwrap_window_get_attr(window, next, &attr, &error));
  REQUIRE(attr.count == 4 && attr.bytes == 16 && attr.dtype == DW_DTYPE_F32);
  distwrap_output theirs;
  if (attr.access == DW_WINDOW_UNIFIED)
    CALL(distwrap_window_map_remote(window, next, &theirs, &error));
  REQUIRE(distwrap_window_put(window, t, next, 3, NULL, NULL, NULL) ==
          DW_INVALID_ARGUMENT);

  how.count = me == 0 ? 1 : 0;
  how.dtype = DW_DTYPE_I64;
  how.signals = -1;
  distwrap_window counter;
  CALL(distwrap_new_window(&how, &counter, &error));
  int64_t one = 1, count = 1, old = -1;
  distwrap_tensor ones = {.data = &one,
                          .device = {DW_DEVICE_CPU, 0},
                          .ndim = 1,
                          .dtype = distwrap_dtype(DW_DTYPE_I64),
                          .shape = &count};
  distwrap_tensor result = ones;
  result.data = &old;
  CALL(distwrap_window_fetch_op(counter, &result, &ones, kFirst, 0,
                                DW_REDUCE_SUM, NULL, NULL, &error));
  REQUIRE(old >= 0 && old < 2 * size);
  CALL(distwrap_window_accumulate(counter, &ones, kFirst, 0, DW_REDUCE_SUM,
                                  NULL, NULL, &error));
  CALL(distwrap_barrier(NULL, NULL, &error));
  int64_t both[2] = {2 * size, 100}, two = 2;
  distwrap_tensor pair = ones;
  pair.data = both;
  pair.shape = &two;
  if (me == 1) {
    CALL(distwrap_window_compare_swap(counter, &result, &pair, kFirst, 0, NULL,
                                      NULL, &error));
    REQUIRE(old == 2 * size);
  }
  CALL(distwrap_window_destroy(counter, 0, &error));
  CALL(distwrap_window_destroy(window, 0, &error));
  REQUIRE(distwrap_window_put(window, t, next, 0, NULL, NULL, NULL) ==
          DW_FAILED_PRECONDITION);
  REQUIRE(distwrap_window_free(counter) == DW_OK);
  REQUIRE(distwrap_window_free(window) == DW_OK);
  REQUIRE(distwrap_window_free(window) == DW_INVALID_ARGUMENT);
}

/* Memory that the backend allocates, where it can: a sum in place, and bad
 * input. */
static void memory(void) {
  const distwrap_device cpu = {DW_DEVICE_CPU, 0};
  distwrap_memory mine;
  void* data = NULL;
  CALL(distwrap_mem_alloc(NULL, cpu, 4000, &mine, &data, &error));
  int64_t count = 1000;
  const distwrap_tensor t = {.data = data,
                             .device = cpu,
                             .ndim = 1,
                             .dtype = distwrap_dtype(DW_DTYPE_F32),
                             .shape = &count};
  float* const x = data;
  REQUIRE(x[999] == 0);
  x[999] = 2;
  CALL(distwrap_all_reduce(&t, &t, DW_REDUCE_SUM, NULL, NULL, &error));
  REQUIRE(x[999] == 2 * (float)size);

  const distwrap_window_options how = {.struct_size = sizeof how, .memory = &t};
  distwrap_window window;
  CALL(distwrap_new_window(&how, &window, &error));
  REQUIRE(distwrap_mem_free(mine, NULL) == DW_INVALID_ARGUMENT);
  CALL(distwrap_window_destroy(window, 0, &error));
  REQUIRE(distwrap_window_free(window) == DW_OK);
  CALL(distwrap_mem_free(mine, &error));
  REQUIRE(distwrap_mem_free(mine, NULL) == DW_INVALID_ARGUMENT);
  REQUIRE(distwrap_mem_free((distwrap_memory)data, NULL) ==
          DW_INVALID_ARGUMENT);
  REQUIRE(distwrap_mem_alloc(NULL, cpu, -1, &mine, &data, NULL) ==
          DW_INVALID_ARGUMENT);
  REQUIRE(mine == NULL);
  REQUIRE(distwrap_mem_alloc(NULL, cpu, INT64_MAX, &mine, &data, NULL) ==
          DW_RESOURCE_EXHAUSTED);
  REQUIRE(distwrap_register_mem_pool(NULL, cpu, &count, 8, &mine, NULL) ==
          DW_UNIMPLEMENTED);
}

/* Pages of a window stay when the window has ended. */
static void pages(void) {
  const distwrap_window_options how = {
      .struct_size = sizeof how, .count = 5000, .dtype = DW_DTYPE_F32};
  distwrap_window window;
  CALL(distwrap_new_window(&how, &window, &error));
  distwrap_output own, kept;
  distwrap_pages mine;
  const distwrap_peer self = {0, 0}, next = {DW_RANK_OF_GROUP, (me + 1) % size};
  CALL(distwrap_window_memory(window, &own, &error));
  CALL(distwrap_window_pages(window, self, &mine, &kept, &error));
  REQUIRE(kept.data != own.data && kept.count == 5000);
  ((float*)own.data)[4999] = (float)me + 1;
  REQUIRE(((float*)kept.data)[4999] == (float)me + 1);
  CALL(distwrap_barrier(NULL, NULL, &error));
  distwrap_pages theirs = NULL;
  distwrap_output far = {0};
  distwrap_window_attr attr = {.struct_size = sizeof attr};
  CALL(distwrap_window_get_attr(window, next, &attr, &error));
  if (attr.access == DW_WINDOW_UNIFIED)
    CALL(distwrap_window_pages(window, next, &theirs, &far, &error));
  CALL(distwrap_window_destroy(window, 0, &error));
  REQUIRE(distwrap_window_free(window) == DW_OK);
  REQUIRE(((float*)kept.data)[4999] == (float)me + 1);
  if (theirs != NULL)
    REQUIRE(((float*)far.data)[4999] == (float)((me + 1) % size + 1));
  REQUIRE(distwrap_pages_free(theirs) == DW_OK);
  REQUIRE(distwrap_pages_free(mine) == DW_OK);
  REQUIRE(distwrap_pages_free(mine) == DW_INVALID_ARGUMENT);

  Floats f;
  const distwrap_tensor* t = floats(&f, 4, 1);
  const distwrap_window_options brought = {.struct_size = sizeof how,
                                           .memory = t};
  CALL(distwrap_new_window(&brought, &window, &error));
  REQUIRE(distwrap_window_pages(window, self, &mine, &kept, NULL) ==
          DW_UNIMPLEMENTED);
  REQUIRE(mine == NULL);
  CALL(distwrap_window_destroy(window, 0, &error));
  REQUIRE(distwrap_window_free(window) == DW_OK);
}

static distwrap_value value_of(int32_t kind) {
  const distwrap_value value = {.struct_size = sizeof value, .kind = kind};
  return value;
}

/* {"loss": [0.5, -7, 2^64, (true, null)], "t": a tensor of 2 i16}, value by
 * value, there and back. */
static void object_values(void) {
  static const char magnitude[] = {1, 0, 0, 0, 0, 0, 0, 0, 0};
  const int16_t elements[] = {3, -4};
  const int64_t two = 2;
  distwrap_value values[11];
  const int32_t kinds[11] = {DW_VALUE_MAP,   DW_VALUE_TEXT,    DW_VALUE_ARRAY,
                             DW_VALUE_FLOAT, DW_VALUE_INTEGER, DW_VALUE_BIG,
                             DW_VALUE_TUPLE, DW_VALUE_BOOL,    DW_VALUE_NULL,
                             DW_VALUE_TEXT,  DW_VALUE_TENSOR};
  for (int i = 0; i < 11; ++i) values[i] = value_of(kinds[i]);
  values[0].count = values[6].count = 2;
  values[1].bytes = (distwrap_bytes){"loss", 4};
  values[2].count = 4;
  values[3].number = 0.5;
  values[4].integer = -7;
  values[5].bytes = (distwrap_bytes){magnitude, sizeof magnitude};
  values[7].integer = 1;
  values[9].bytes = (distwrap_bytes){"t", 1};
  values[10].bytes = (distwrap_bytes){elements, sizeof elements};
  values[10].shape = &two;
  values[10].ndim = 1;
  values[10].dtype = distwrap_dtype(DW_DTYPE_I16);

  distwrap_writer writer;
  distwrap_list list;
  CALL(distwrap_writer_create(&writer, &error));
  for (int i = 0; i < 11; ++i) {
    REQUIRE(distwrap_writer_take(writer, &list, NULL) == DW_INVALID_ARGUMENT);
    CALL(distwrap_writer_put(writer, &values[i], &error));
  }
  REQUIRE(distwrap_writer_put(writer, &values[1], NULL) == DW_INVALID_ARGUMENT);
  CALL(distwrap_writer_take(writer, &list, &error));
  distwrap_bytes bytes;
  CALL(distwrap_list_item(list, 0, &bytes, &error));

  distwrap_reader reader;
  distwrap_value read = value_of(0);
  CALL(distwrap_reader_create(&bytes, &reader, &error));
  for (int i = 0; i < 11; ++i) {
    CALL(distwrap_reader_next(reader, &read, &error));
    REQUIRE(read.kind == kinds[i] && read.count == values[i].count);
    REQUIRE(read.integer == values[i].integer);
    REQUIRE(read.number == values[i].number);
    REQUIRE(read.bytes.size == values[i].bytes.size);
    REQUIRE(read.bytes.size == 0 ||
            memcmp(read.bytes.data, values[i].bytes.data, read.bytes.size) ==
                0);
    REQUIRE(read.ndim == values[i].ndim && (i < 10 || read.shape[0] == 2));
  }
  CALL(distwrap_reader_next(reader, &read, &error));
  REQUIRE(read.kind == DW_VALUE_END);
  REQUIRE(distwrap_reader_free(reader) == DW_OK);
  bytes.size -= 1;
  REQUIRE(distwrap_reader_create(&bytes, &reader, NULL) == DW_DATA_LOSS);
  REQUIRE(reader == NULL);
  REQUIRE(distwrap_list_free(list) == DW_OK);

  /* Refused: no kind, a text of no UTF-8, equal keys, and too deep. */
  read = value_of(99);
  REQUIRE(distwrap_writer_put(writer, &read, NULL) == DW_INVALID_ARGUMENT);
  read = value_of(DW_VALUE_TEXT);
  read.bytes = (distwrap_bytes){"\xff", 1};
  CALL(distwrap_writer_put(writer, &read, &error));
  REQUIRE(distwrap_writer_take(writer, &list, NULL) == DW_INVALID_ARGUMENT);
  read = value_of(DW_VALUE_MAP);
  read.count = 2;
  CALL(distwrap_writer_put(writer, &read, &error));
  read = value_of(DW_VALUE_NULL);
  for (int i = 0; i < 4; ++i) CALL(distwrap_writer_put(writer, &read, &error));
  REQUIRE(distwrap_writer_take(writer, &list, NULL) == DW_INVALID_ARGUMENT);
  read = value_of(DW_VALUE_ARRAY);
  read.count = 1;
  for (int i = 0; i < 65; ++i) CALL(distwrap_writer_put(writer, &read, &error));
  read = value_of(DW_VALUE_NULL);
  CALL(distwrap_writer_put(writer, &read, &error));
  REQUIRE(distwrap_writer_take(writer, &list, NULL) == DW_INVALID_ARGUMENT);
  REQUIRE(distwrap_writer_free(writer) == DW_OK);
}

/* The ranks of a group in the order of its list. */
static void kept_order(void) {
  const int32_t ranks[] = {2, 0, 1};
  const distwrap_group_options how = {.struct_size = sizeof how,
                                      .ranks = ranks,
                                      .ranks_count = 3,
                                      .keep_order = 1};
  distwrap_group turned;
  CALL(distwrap_new_group(&how, &turned, &error));
  if (me > 2) {
    REQUIRE(turned == NULL);
    return;
  }
  REQUIRE(distwrap_get_rank(turned) == (me + 1) % 3);
  Floats f;
  const distwrap_tensor* t = floats(&f, 1, (float)me);
  const distwrap_peer first = {DW_RANK_OF_GROUP, 0};
  const distwrap_op_options on = {.struct_size = sizeof on, .group = turned};
  CALL(distwrap_broadcast(t, t, first, &on, NULL, &error));
  REQUIRE(f.x[0] == 2);
  CALL(distwrap_destroy_process_group(turned, &error));
  REQUIRE(distwrap_group_free(turned) == DW_OK);
}

/* The handle knows its session, to which this thread is not bound. */
static void* destroy_in_a_thread(void* group) {
  distwrap_error failed = NULL;
  REQUIRE(distwrap_destroy_process_group(group, &failed) == DW_OK);
  return NULL;
}

/* A session of its own beside the program's, which no thread is bound to. */
static void second_session(void) {
  const distwrap_init_options alone = {.struct_size = sizeof alone,
                                       .has_rank = 1,
                                       .world_size = 1,
                                       .backend = "loopback"};
  distwrap_session own;
  distwrap_group world;
  CALL(distwrap_session_create(&alone, &own, &error));
  CALL(distwrap_session_world(own, &world, &error));
  REQUIRE(distwrap_get_world_size(world) == 1);
  REQUIRE(distwrap_get_world_size(NULL) == size);
  distwrap_store store;
  int64_t count;
  CALL(distwrap_session_store(own, &store, &error));
  CALL(distwrap_store_add(store, "program/count", 3, DW_FOREVER, &count,
                          &error));
  REQUIRE(count == 3);
  REQUIRE(distwrap_store_free(store) == DW_OK);
  REQUIRE(distwrap_session_store(own, NULL, NULL) == DW_INVALID_ARGUMENT);
  REQUIRE(distwrap_session_store(NULL, &store, NULL) != DW_OK);
  Floats f;
  const distwrap_tensor* t = floats(&f, 1, 3);
  const distwrap_op_options on = {.struct_size = sizeof on, .group = world};
  CALL(distwrap_all_reduce(t, t, DW_REDUCE_SUM, &on, NULL, &error));
  REQUIRE(f.x[0] == 3);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, destroy_in_a_thread, world) == 0);
  REQUIRE(pthread_join(thread, NULL) == 0);
  REQUIRE(distwrap_all_reduce(t, t, DW_REDUCE_SUM, &on, NULL, NULL) != DW_OK);
  REQUIRE(distwrap_group_free(world) == DW_OK);
  REQUIRE(distwrap_session_free(own) == DW_OK);
  REQUIRE(distwrap_get_world_size(NULL) == size);
  REQUIRE(strchr(distwrap_version(), '.') != NULL);
}

/* A start that waits for a rank that never comes. */
static void interrupted_start(void) {
  int ends[2];
  REQUIRE(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
  distwrap_store store;
  CALL(distwrap_store_in_memory(&store, &error));
  const distwrap_init_options options = {.struct_size = sizeof options,
                                         .has_rank = 1,
                                         .world_size = 2,
                                         .store = store,
                                         .has_interrupt_fd = 1,
                                         .interrupt_fd = ends[0]};
  distwrap_session own;
  REQUIRE(distwrap_session_create(&options, &own, NULL) == DW_ABORTED);
  REQUIRE(own == NULL && distwrap_get_world_size(NULL) == size);
  /* A wait for a key that nobody sets, and one for a store that is not there.
   */
  const char* key = "none";
  CALL(distwrap_store_interrupt_by(ends[0], &error));
  REQUIRE(distwrap_store_wait(store, &key, 1, DW_FOREVER, &error) ==
          DW_ABORTED);
  REQUIRE(strstr(distwrap_error_text(error), "the call was interrupted") !=
          NULL);
  distwrap_error_free(error);
  CALL(distwrap_store_interrupt_by(ends[0], &error));
  distwrap_store nowhere;
  REQUIRE(distwrap_store_connect("unix:/nonexistent/store", DW_FOREVER,
                                 &nowhere, NULL) == DW_ABORTED);
  CALL(distwrap_store_interrupt_by(-1, &error));
  REQUIRE(distwrap_store_wait(store, &key, 1, 1000000, NULL) ==
          DW_DEADLINE_EXCEEDED);
  REQUIRE(distwrap_store_free(store) == DW_OK);
  REQUIRE(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* Rows of a matrix become columns, on a mesh of one axis. */
static void meshes(void) {
  const int64_t sizes[] = {size};
  const char* const names[] = {"x"};
  const int32_t first = 0;
  distwrap_mesh_options options = {
      .struct_size = sizeof options, .axes = 1, .sizes = sizes, .names = names};
  distwrap_mesh mesh, part;
  distwrap_mesh_info info = {.struct_size = sizeof info};
  CALL(distwrap_mesh_create(&options, &mesh, &error));
  CALL(distwrap_mesh_read(mesh, &info, &error));
  REQUIRE(info.axes == 1 && info.sizes[0] == size && info.size == size);
  REQUIRE(info.rank == me && info.ranks[size - 1] == size - 1);
  CALL(distwrap_mesh_along(mesh, &first, 1, &part, &error));
  REQUIRE(distwrap_mesh_free(part) == DW_OK);
  distwrap_group along;
  CALL(distwrap_mesh_group(mesh, &first, 1, &along, &error));
  REQUIRE(distwrap_get_rank(along) == me);
  REQUIRE(distwrap_group_free(along) == DW_OK);

  const int64_t shape[] = {size, size};
  const distwrap_layout rows = {sizes, 1, "S(0)"}, columns = {sizes, 1, "S(1)"};
  int64_t local[2], offset[2];
  CALL(distwrap_layout_part(&columns, shape, 2, me, local, offset, &error));
  REQUIRE(local[0] == size && local[1] == 1 && offset[0] == 0);
  REQUIRE(offset[1] == me);
  distwrap_plan plan;
  distwrap_plan_info told = {.struct_size = sizeof told};
  CALL(distwrap_plan_create(&rows, &columns, shape, 2, 4, NULL, &plan, &error));
  CALL(distwrap_plan_read(plan, &told, &error));
  REQUIRE(told.steps == 1 && told.collectives == 1 && !told.diverged);
  REQUIRE(told.received == size - 1 && told.floor == size - 1);
  distwrap_list list;
  distwrap_bytes text;
  CALL(distwrap_plan_text(plan, &list, &error));
  CALL(distwrap_list_item(list, 0, &text, &error));
  REQUIRE(strncmp(text.data, "plan 1 mesh=[", 13) == 0);
  REQUIRE(distwrap_list_free(list) == DW_OK);
  REQUIRE(distwrap_plan_free(plan) == DW_OK);
  REQUIRE(distwrap_plan_free(plan) == DW_INVALID_ARGUMENT);

  Floats a, b;
  const distwrap_tensor* in = floats(&a, size, (float)me);
  const distwrap_tensor* out = floats(&b, size, -1);
  const distwrap_plan_options how = {.struct_size = sizeof how,
                                     .mode = DW_PLAN_FEWEST_BYTES,
                                     .timeout = 60000000000};
  CALL(distwrap_redistribute(mesh, out, "S(1)", in, "S(0)", shape, 2, &how,
                             &error));
  for (int32_t i = 0; i < size; ++i) REQUIRE((int32_t)b.x[i] == i);
  REQUIRE(all_are(&a, (float)me));
  /* Not to be told from 1 in 16 bits. */
  in = floats(&a, size, 1.0009765625f);
  const distwrap_plan_options narrow = {
      .struct_size = sizeof narrow,
      .wire_dtype = distwrap_dtype(DW_DTYPE_BF16)};
  CALL(distwrap_redistribute(mesh, out, "S(1)", in, "S(0)", shape, 2, &narrow,
                             &error));
  REQUIRE(all_are(&b, size == 1 ? 1.0009765625f : 1));
  const distwrap_plan_options unknown = {
      .struct_size = sizeof unknown,
      .wire_dtype = {.code = 2, .bits = 80, .lanes = 1}};
  REQUIRE(distwrap_redistribute(mesh, out, "S(1)", in, "S(0)", shape, 2,
                                &unknown, &error) == DW_INVALID_ARGUMENT);
  distwrap_error_free(error);
  REQUIRE(distwrap_mesh_free(mesh) == DW_OK);
}

static void errors(void) {
  Floats f;
  const distwrap_tensor* t = floats(&f, 2, 1);
  distwrap_op_options how = {.struct_size = sizeof how, .label = "gradients"};
  REQUIRE(distwrap_all_reduce(t, t, 99, &how, NULL, &error) ==
          DW_INVALID_ARGUMENT);
  distwrap_error_info info = {.struct_size = sizeof info};
  REQUIRE(distwrap_error_read(error, &info) == DW_OK);
  REQUIRE(info.reason == DW_REASON_REDUCE_OP);
  REQUIRE(strcmp(info.op, "all_reduce") == 0);
  REQUIRE(info.next_step[0] != 0);
  REQUIRE(strncmp(info.page, "DW-", 3) == 0 && info.setting != NULL);
  REQUIRE(strcmp(info.text, distwrap_error_text(error)) == 0);
  REQUIRE(distwrap_error_free(error) == DW_OK);
  REQUIRE(distwrap_error_free(error) == DW_INVALID_ARGUMENT);
  REQUIRE(distwrap_all_reduce(t, NULL, DW_REDUCE_SUM, NULL, NULL, NULL) ==
          DW_INVALID_ARGUMENT);
}

int main(void) {
  distwrap_init_options options = {.struct_size = sizeof options,
                                   .group_name = "job",
                                   .straggler = 100000000};
  distwrap_session session;
  CALL(distwrap_init_process_group(&options, &session, &error));
  REQUIRE(distwrap_is_initialized());
  me = distwrap_get_rank(NULL);
  size = distwrap_get_world_size(NULL);
  REQUIRE(size >= 3 && size <= kMost);
  reductions();
  gathers_and_scatters();
  exchanges();
  messages();
  groups();
  batches();
  prepared_operations();
  prepared_differences();
  objects();
  work();
  registry();
  owned_data();
  guard();
  hooks();
  stragglers();
  windows();
  pages();
  memory();
  object_values();
  kept_order();
  meshes();
  second_session();
  interrupted_start();
  errors();
  CALL(distwrap_destroy_process_group(NULL, &error));
  REQUIRE(!distwrap_is_initialized());
  REQUIRE(distwrap_session_free(session) == DW_OK);
  REQUIRE(atomic_load(&called) == 1); /* close has waited for it */
  printf("all is well\n");
  return 0;
}
