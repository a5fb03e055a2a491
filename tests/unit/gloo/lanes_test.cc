// Waits for transfers with a lost peer.
#include "lanes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

namespace gloo_backend {
namespace {

class GlooLanesTest : public testing::Test {
 protected:
  Device device_{Place{"lo", ""}};
  Peers peers_{device_, device_.gloo()->createContext(0, 2)};
};

// A worker with other messages interrupts each wait ten thousand times a
// second.
TEST_F(GlooLanesTest, WhoIsLetGoAllTheTimeStillSeesThatThePeerIsLost) {
  Lane lane(peers_, 1);
  std::future<void> waiting = std::async(std::launch::async, [&] {
    for (const Direction way : {Direction::kReceive, Direction::kSend})
      EXPECT_THROW(while (!lane.wait(way)){}, std::runtime_error);
  });
  std::atomic<bool> over{false};
  std::thread impatient([&] {
    while (!over.load()) {
      lane.let_go(Direction::kReceive);
      lane.let_go(Direction::kSend);
    }
  });
  peers_.lose(1);
  const bool ended =
      waiting.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  EXPECT_TRUE(ended);
  over.store(true);
  impatient.join();
  waiting.wait();
}

}  // namespace
}  // namespace gloo_backend
