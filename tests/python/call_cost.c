/* The calls of the C API that call_cost.py compares with those of Python, as a
 * library for ctypes: nanoseconds of `count` calls on the thread's session. */
#include "distwrap/c.h"

#include <time.h>

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static double value = 1;
static int64_t one = 1;

static distwrap_tensor tensor(void) {
  return (distwrap_tensor){.data = &value,
                           .device = {DW_DEVICE_CPU, 0},
                           .ndim = 1,
                           .dtype = distwrap_dtype(DW_DTYPE_F64),
                           .shape = &one};
}

/* -1 when a call fails. */
int64_t time_calls(int64_t count) {
  const distwrap_tensor t = tensor();
  const int64_t begin = now();
  for (int64_t i = 0; i < count; ++i)
    if (distwrap_all_reduce(&t, &t, DW_REDUCE_SUM, NULL, NULL, NULL) != DW_OK)
      return -1;
  return now() - begin;
}

int64_t time_started_calls(int64_t count) {
  const distwrap_tensor t = tensor();
  const int64_t begin = now();
  for (int64_t i = 0; i < count; ++i) {
    distwrap_work work;
    if (distwrap_all_reduce(&t, &t, DW_REDUCE_SUM, NULL, &work, NULL) !=
            DW_OK ||
        distwrap_work_wait(work, DW_FOREVER, NULL) != DW_OK ||
        distwrap_work_free(work) != DW_OK)
      return -1;
  }
  return now() - begin;
}
