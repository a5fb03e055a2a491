// The reusable memory and lanes of a thread that runs operations.
#ifndef DISTWRAP_BACKENDS_GLOO_DESK_H_
#define DISTWRAP_BACKENDS_GLOO_DESK_H_

#include "call.h"
#include "lanes.h"

#include <cstddef>
#include <vector>

namespace gloo_backend {

// Memory of the host that grows, and is kept while it is small.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { free(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // NULL when there is no memory. The previous content is lost.
  char* take(const dw_host_api* host, size_t bytes) {
    if (bytes <= bytes_) return memory_;
    free();
    host_ = host;
    memory_ = static_cast<char*>(host->scratch_alloc(host->self, bytes));
    bytes_ = memory_ == nullptr ? 0 : bytes;
    return memory_;
  }
  // Called between operations.
  void shrink() {
    if (bytes_ > kKept) free();
  }

 private:
  static constexpr size_t kKept = size_t{65} * 1024;

  void free() {
    if (memory_ != nullptr) host_->scratch_free(host_->self, memory_);
    memory_ = nullptr;
    bytes_ = 0;
  }

  const dw_host_api* host_ = nullptr;
  char* memory_ = nullptr;
  size_t bytes_ = 0;
};

struct Desk {
  void attach(Peers* peers, int size, Meanwhile* meanwhile = nullptr) {
    for (LaneSet& set : lanes) set.attach(peers, size, meanwhile);
  }
  // Called after a failure and before it is reported: Gloo releases the
  // caller's memory.
  void discard() {
    for (LaneSet& set : lanes) set.discard();
  }

  LaneSet lanes[2];  // One set for each phase, so that phases are waited for
                     // separately.
  Scratch scratch;
  Pieces blocks;
  std::vector<const void*> parts;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_DESK_H_
