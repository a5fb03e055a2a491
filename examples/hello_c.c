/* The ranks form two groups; each starts a sum, and every call's error is
 * checked. */
#include <distwrap/c.h>

#include <stdio.h>

/* Prints and frees the error of a call; returns whether there was none. */
static int good(int32_t code, distwrap_error error) {
  if (code == DW_OK) return 1;
  distwrap_error_info info = {.struct_size = sizeof info};
  distwrap_error_read(error, &info);
  fprintf(stderr, "%s: %s; %s\n", info.op, info.what, info.next_step);
  distwrap_error_free(error);
  return 0;
}

static int run(void) {
  distwrap_error e;
  distwrap_group half = NULL;
  const int32_t me = distwrap_get_rank(NULL);
  if (!good(distwrap_split_group_by_color(me % 2, me, NULL, &half, &e), e))
    return 0;

  float x[4] = {1, 1, 1, 1};
  int64_t count = 4;
  const distwrap_tensor tensor = {.data = x,
                                  .device = {DW_DEVICE_CPU, 0},
                                  .ndim = 1,
                                  .dtype = distwrap_dtype(DW_DTYPE_F32),
                                  .shape = &count};
  const distwrap_op_options options = {
      .struct_size = sizeof options, .group = half, .label = "ones"};
  distwrap_work sum;
  if (!good(distwrap_all_reduce(&tensor, &tensor, DW_REDUCE_SUM, &options, &sum,
                                &e),
            e))
    return 0;
  const int done = good(distwrap_work_wait(sum, DW_FOREVER, &e), e);
  distwrap_work_free(sum);
  distwrap_group_free(half);
  if (done) printf("%d: %g\n", me, (double)x[0]);
  return done;
}

int main(void) {
  distwrap_error e;
  if (!good(distwrap_init_process_group(NULL, NULL, &e), e)) return 1;
  const int done = run();
  return good(distwrap_destroy_process_group(NULL, &e), e) && done ? 0 : 1;
}
