// The default generator: a seed and the number of the next call, in one lock.
#include "distwrap/random.h"

#include <mutex>

namespace distwrap {
namespace {

struct Default {
  std::mutex mutex;
  Generator next;
};

Default& default_generator() {
  static Default generator;
  return generator;
}

}  // namespace

void manual_seed(uint64_t seed) {
  Default& generator = default_generator();
  const std::lock_guard lock(generator.mutex);
  generator.next = {.seed = seed, .call = 0};
}

Generator next_generator() {
  Default& generator = default_generator();
  const std::lock_guard lock(generator.mutex);
  const Generator next = generator.next;
  ++generator.next.call;
  return next;
}

}  // namespace distwrap
