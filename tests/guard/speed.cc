// Measures the cost that the door adds to calls of an engine whose functions
// are empty. Prints a name and nanoseconds for each case, the least of many
// short loops: a machine that does much else disturbs some of them.
// tests/guard/speed.py compares a process with the door with one without it.
#include "distwrap/distwrap.h"
#include "distwrap/guard.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <time.h>
#include <vector>

// From a library, with an empty body.
extern "C" int ncclSend(void*, void*, long, int, int, void*, void*);

namespace {

constexpr int kCalls = 10'000, kLoops = 1'000;

double now_ns() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e9 +
         static_cast<double>(time.tv_nsec);
}

double loop(int calls) {
  const double begin = now_ns();
  for (int i = 0; i < calls; ++i)
    ncclSend(nullptr, nullptr, 1, 2, 3, nullptr, nullptr);
  return (now_ns() - begin) / calls;
}

using Loop = double (*)(int);

double least(Loop one, int loops = kLoops) {
  double found = one(kCalls);
  for (int i = 1; i < loops; ++i) found = std::min(found, one(kCalls));
  return found;
}

// The loop of a module whose name the door knows.
double loop_of(const char* file) {
  void* const module = dlopen(file, RTLD_NOW);
  if (module == nullptr) return -1;
  const double found = least(reinterpret_cast<Loop>(dlsym(module, "loop")));
  dlclose(module);
  return found;
}

// The first call of a module that has just been loaded.
double first_call(const char* file) {
  double found = 1e9;
  for (int i = 0; i < 200; ++i) {
    void* const module = dlopen(file, RTLD_NOW);
    found = std::min(found, reinterpret_cast<Loop>(dlsym(module, "loop"))(1));
    dlclose(module);
  }
  return found;
}

}  // namespace

// speed MODULE: the module of speed_caller.cc. Without it: nothing at all, for
// the time of a start.
int main(int argc, char** argv) {
  if (argc < 2) return 0;
  std::printf("open %.3f\n", least(&loop));
  const auto session = distwrap::init_process_group(
      {.rank = 0, .world_size = 1, .guard = distwrap::GuardMode::kBlock});
  if (!session.ok()) return 1;
  {
    const distwrap::GuardAllow allow("a measurement");
    std::printf("scope %.3f\n", least(&loop));
  }
  std::printf("all_reduce %.3f\n", least([](int calls) {
                static std::vector<float> x(2);
                const double begin = now_ns();
                for (int i = 0; i < calls / 10; ++i)
                  distwrap::all_reduce(distwrap::TensorView(x),
                                       distwrap::ReduceOp::kSum)
                      .IgnoreError();
                return (now_ns() - begin) / (calls / 10);
              }));
  std::printf("exempt %.3f\n", loop_of(argv[1]));
  std::printf("first %.3f\n", first_call(argv[1]));
  std::printf("refused %.3f\n", least(&loop, 20));
  return distwrap::destroy_process_group().ok() ? 0 : 1;
}
