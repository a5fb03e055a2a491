// Staging memory of the host, returned at the end of the scope.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_SCRATCH_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_SCRATCH_H_

#include "distwrap/abi/plugin.h"

#include <cstdint>

namespace distwrap::algo::compose {

class Scratch {
 public:
  Scratch(const dw_host_api& host, uint64_t bytes)
      : host_(host),
        data_(bytes == 0 ? nullptr : host.scratch_alloc(host.self, bytes)),
        ok_(bytes == 0 || data_ != nullptr) {}
  ~Scratch() {
    if (data_ != nullptr) host_.scratch_free(host_.self, data_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  bool ok() const { return ok_; }
  char* data() const { return static_cast<char*>(data_); }

 private:
  const dw_host_api& host_;
  void* const data_;
  const bool ok_;
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_SCRATCH_H_
