// One-sided operations of UCX itself, on memory that it allocates, as in its
// own benchmark: a put ends with a flush, a signal is a put behind a fence.
//
// Threads: used by one. Ownership: calls keep alive what they need.
#ifndef DISTWRAP_TESTS_PEERS_RAW_UCX_WINDOWS_H_
#define DISTWRAP_TESTS_PEERS_RAW_UCX_WINDOWS_H_

#include "bench/contestant.h"
#include "ucx_rank.h"

#include <absl/status/statusor.h>

#include <memory>

namespace distwrap::peers {

class RawUcxWindows {
 public:
  explicit RawUcxWindows(const bench::Setup& setup) : setup_(setup) {}

  // Collective; the first one connects.
  absl::StatusOr<std::unique_ptr<bench::TimedCall>> prepare(bench::Case& c);

 private:
  const bench::Setup setup_;
  std::shared_ptr<Ucx> ucx_;
  int windows_ = 0;
};

}  // namespace distwrap::peers

#endif  // DISTWRAP_TESTS_PEERS_RAW_UCX_WINDOWS_H_
