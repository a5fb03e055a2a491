// A module that calls an engine many times, and takes the time itself.
#include <time.h>

extern "C" {
int ncclSend(void*, void*, long, int, int, void*, void*);

__attribute__((visibility("default"))) double loop(int calls) {
  timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < calls; ++i)
    ncclSend(nullptr, nullptr, 1, 2, 3, nullptr, nullptr);
  clock_gettime(CLOCK_MONOTONIC, &end);
  const double ns = static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 +
                    static_cast<double>(end.tv_nsec - begin.tv_nsec);
  return ns / calls;
}
}
