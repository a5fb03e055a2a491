// One rank of UCX itself: a context, a worker and an endpoint to each rank, as
// in its own benchmark. UCX chooses the transports.
//
// Threads: one. Ownership: endpoints end before the worker.
#ifndef DISTWRAP_TESTS_PEERS_UCX_RANK_H_
#define DISTWRAP_TESTS_PEERS_UCX_RANK_H_

#include "bench/contestant.h"

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <ucp/api/ucp.h>
#include <vector>

namespace distwrap::peers {

absl::Status ucx_failed(const char* what, ucs_status_t status);

class Ucx {
 public:
  // `features`: the UCP_FEATURE_ flags that will be used. `watches`: whether
  // UCX watches its connections, as a library needs that notices lost peers.
  explicit Ucx(uint64_t features, bool watches = false)
      : features_(features), watches_(watches) {}
  ~Ucx();
  Ucx(const Ucx&) = delete;
  Ucx& operator=(const Ucx&) = delete;

  // Collective; keys begin with `prefix`.
  absl::Status connect(const bench::Setup& setup, const std::string& prefix);

  ucp_context_h context() const { return context_; }
  ucp_worker_h worker() const { return worker_; }
  ucp_ep_h to(int peer) const { return endpoints_[static_cast<size_t>(peer)]; }
  // Drives the worker until the request has ended.
  absl::Status wait(ucs_status_ptr_t request);

 private:
  absl::Status open();

  const uint64_t features_;
  const bool watches_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<ucp_ep_h> endpoints_;
};

}  // namespace distwrap::peers

#endif  // DISTWRAP_TESTS_PEERS_UCX_RANK_H_
