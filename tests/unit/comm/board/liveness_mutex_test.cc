// The lock that says whether a process lives.
#include "comm/board/liveness_mutex.h"

#include "comm/board/host_memory.h"
#include "distwrap/abi/note.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <signal.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace distwrap::comm {
namespace {

class LifeTest : public testing::Test {
 protected:
  void SetUp() override {
    auto memory = HostMemory::make(2);
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    ASSERT_TRUE(memory_->reserve(&front()).ok());
    liveness_ = memory_->make_liveness(1);
    ASSERT_NE(liveness_, nullptr);
  }
  FrontPage& front() { return memory_->area(1).front; }
  bool ended() { return has_ended(front().life); }

  std::unique_ptr<HostMemory> memory_;
  std::unique_ptr<LivenessMutex> liveness_;
};

TEST_F(LifeTest, EndsWithItsThreadUnlessThatLetGo) {
  EXPECT_FALSE(ended());
  std::thread([&] {
    liveness_->hold();
    EXPECT_FALSE(ended());
    liveness_->let_go();
  }).join();
  EXPECT_FALSE(ended());
  std::thread([&] { liveness_->hold(); }).join();
  EXPECT_TRUE(ended());
  // The sanitizer does not know that a lock is free when its holder has ended.
  if (DW_SANITIZER == DW_SANITIZER_THREAD) return;
  // A process that came again.
  std::thread([&] {
    liveness_->hold();
    EXPECT_FALSE(ended());
    liveness_->let_go();
  }).join();
  EXPECT_FALSE(ended());
}

TEST_F(LifeTest, EndsWithAProcessThatIsKilled) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  // The library's own is not the child's.
  const int memory = dup(memory_->descriptor());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto life = LivenessMutex::make(memory, kAreaBytes);
    if (life == nullptr) _exit(1);
    life->hold();
    const char held = 1;
    if (write(pipes[1], &held, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char held = 0;
  EXPECT_EQ(read(pipes[0], &held, 1), 1);
  EXPECT_FALSE(ended());
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(ended());
  close(memory);
  close(pipes[0]);
  close(pipes[1]);
}

// Any word of the page may be a neighbour's: no pointer that is followed, no
// kind of lock, nobody to wait for.
TEST_F(LifeTest, NoWordOfThePageHurts) {
  auto* const words = reinterpret_cast<std::atomic<uint64_t>*>(&front());
  for (size_t i = 0; i < kPageBytes / 8; ++i)
    for (const uint64_t word : {uint64_t{0x4141'4141'4141'4141}, ~uint64_t{0},
                                uint64_t{0x7fff'ffff}}) {
      std::thread([&] {
        const uint64_t before = words[i].exchange(word);
        liveness_->hold();
        words[i].store(word);
        liveness_->let_go();
        words[i].store(before);
      }).join();
      ASSERT_FALSE(ended()) << i;
    }
}

}  // namespace
}  // namespace distwrap::comm
