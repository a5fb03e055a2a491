// The door before real engines: Gloo's collectives and UCX's messages are
// refused, and a Gloo barrier runs in a scope. Our own backend over Gloo, in
// the same process, is never refused.
#include "distwrap/distwrap.h"
#include "distwrap/guard.h"

#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

// The real function has more arguments; a refused call reads none.
extern "C" long ucp_tag_send_nbx(void*);

namespace distwrap {
namespace {

using ::testing::HasSubstr;

void gloo_barrier() {
  static const auto context = [] {
    auto made = std::make_shared<gloo::rendezvous::Context>(0, 1);
    gloo::rendezvous::HashStore store;
    gloo::transport::tcp::attr place;
    place.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(place);
    made->connectFullMesh(store, device);
    return made;
  }();
  gloo::BarrierOptions options(context);
  gloo::barrier(options);
}

TEST(RealEngines, AreRefusedAndPassInAScope) {
  ASSERT_NE(guard_status().door, "") << "the door is not preloaded";
  gloo_barrier();
  const auto session = Session::create(
      {.rank = 0, .world_size = 1, .guard = GuardMode::kRequire});
  ASSERT_TRUE(session.ok()) << session.status();
  try {
    gloo_barrier();
    ADD_FAILURE() << "Gloo's barrier was not refused";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("call distwrap_barrier instead"));
  }
  EXPECT_EQ(ucp_tag_send_nbx(nullptr), -22);
  {
    const GuardAllow allow("a test");
    gloo_barrier();
  }
  EXPECT_TRUE(session->close().ok());
  gloo_barrier();
}

TEST(RealEngines, OurOwnBackendsAreNotRefused) {
  for (const char* backend : {"gloo", "shm", "ucx"}) {
    const std::shared_ptr<Store> store = Store::in_memory();
    const auto rank = [&](int me) {
      const auto session = Session::create({.backend = backend,
                                            .rank = me,
                                            .world_size = 2,
                                            .store = store,
                                            .guard = GuardMode::kBlock});
      ASSERT_TRUE(session.ok()) << session.status();
      std::vector<float> x(1000, 1);
      const auto sum = all_reduce(TensorView(x), ReduceOp::kSum,
                                  {.group = session->world()});
      EXPECT_TRUE(sum.ok()) << sum.status();
      EXPECT_EQ(x[999], 2);
      EXPECT_TRUE(session->close().ok());
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
  }
}

}  // namespace
}  // namespace distwrap
