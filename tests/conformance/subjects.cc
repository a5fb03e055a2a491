#include "subjects.h"

#include "fakes/compose_over.h"
#include "fakes/messages.h"
#include "linked.h"
#include "pace.h"
#include "sockets_sent.h"

namespace distwrap::conformance {
namespace {

// Large buffers reveal nothing new there.
constexpr size_t kLargest = kSlow ? 5000 : size_t{1} << 20;

constexpr auto gloo = fakes::table_of<dw_plugin_query_v1_gloo>;
constexpr auto loopback = fakes::table_of<dw_plugin_query_v1_loopback>;
constexpr auto shm = fakes::table_of<dw_plugin_query_v1_shm>;
#ifdef DISTWRAP_HAS_UCX
constexpr auto ucx = fakes::table_of<dw_plugin_query_v1_ucx>;
#endif
constexpr auto messages = fakes::table_of<dw_plugin_query_v1_messages>;

}  // namespace

std::vector<Subject> subjects() {
  const std::vector<int> sizes = all_sizes();
  return {
      {.name = "gloo",
       .table = gloo,
       .sizes = sizes,
       .module = "gloo",
       .bytes_sent = bytes_sent_by_sockets,
       .moves_large = true},
      {.name = "loopback",
       .table = loopback,
       .sizes = {1},
       .module = "loopback",
       .threads = 0},
      {.name = "shm",
       .table = shm,
       .sizes = sizes,
       .module = "shm",
       .moves_large = true},
#ifdef DISTWRAP_HAS_UCX
      {.name = "ucx",
       .table = ucx,
       .sizes = sizes,
       .module = "ucx",
       .moves_large = true},
      {.name = "compose_ucx",
       .table = fakes::compose_over<ucx>,
       .sizes = sizes,
       .complete = true,
       .threads = 2,
       .moves_large = true},
#endif
      // Completed backends: made of messages alone, and of engines with gaps.
      {.name = "compose_messages",
       .table = fakes::compose_over<messages>,
       .sizes = sizes,
       .complete = true,
       .bytes_sent = fakes::bytes_sent,
       .delivers_first = true},
      // Each of the two has a thread for asynchronous operations.
      {.name = "compose_gloo",
       .table = fakes::compose_over<gloo>,
       .sizes = sizes,
       .complete = true,
       .threads = 2,
       .bytes_sent = bytes_sent_by_sockets,
       .moves_large = true},
      {.name = "compose_shm",
       .table = fakes::compose_over<shm>,
       .sizes = sizes,
       .complete = true,
       .threads = 2,
       .moves_large = true},
      {.name = "compose_loopback",
       .table = fakes::compose_over<loopback>,
       .sizes = {1},
       .complete = true},
  };
}

Limits limits_of(const Subject& subject) {
  Limits limits;
  limits.sizes = subject.sizes;
  limits.seed = test_seed();
  limits.largest = kLargest;
  limits.complete = subject.complete;
  limits.threads = subject.threads;
  limits.bytes_sent = subject.bytes_sent;
  limits.delivers_first = subject.delivers_first;
  return limits;
}

}  // namespace distwrap::conformance
