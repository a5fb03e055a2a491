#include "ranks/rank_threads.h"

#include "distwrap/store.h"
#include "host_backends.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace distwrap::testing {

void run_rank_threads(
    int n, const InitOptions& options,
    const std::function<void(int, const InitOptions&)>& body) {
  const std::shared_ptr<Store> store = Store::in_memory();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([=, &body] {
      InitOptions mine = options;
      mine.rank = rank;
      mine.world_size = n;
      mine.store = store;
      body(rank, mine);
    });
  for (std::thread& thread : threads) thread.join();
}

void run_ranks(int n, const InitOptions& options,
               const std::function<void(Session&)>& body) {
  run_rank_threads(n, options, [&](int rank, const InitOptions& mine) {
    absl::StatusOr<Session> session = Session::create(mine);
    ASSERT_TRUE(session.ok()) << "rank " << rank << ": " << session.status();
    body(*session);
    const absl::Status closed = session->close();
    EXPECT_TRUE(closed.ok()) << closed;
  });
}

void run_over_each(int n, InitOptions options,
                   const std::function<void(Session&)>& body) {
  for (const char* const backend :
       n == 1 ? std::vector<const char*>{"loopback"} : host_backends()) {
    options.backend = backend;
    run_ranks(n, options, [&](Session& session) {
      SCOPED_TRACE(backend);
      body(session);
    });
  }
}

}  // namespace distwrap::testing
