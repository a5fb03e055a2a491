// The values of the file DISTWRAP_TUNING reach the backends that it names,
// unless the caller gives others.
#include "base/error.h"
#include "distwrap/distwrap.h"
#include "ranks/rank_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <stdlib.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace distwrap::testing {
namespace {

using ::testing::HasSubstr;
using Hints = std::map<std::string, std::string>;

class Tuned : public ::testing::Test {
 protected:
  Tuned() {
    const int fd = mkstemp(path_.data());
    if (fd >= 0) close(fd);
    setenv("DISTWRAP_TUNING", path_.c_str(), 1);
  }
  ~Tuned() override {
    unsetenv("DISTWRAP_TUNING");
    unlink(path_.c_str());
  }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  static absl::Status start(const std::string& backend, Hints hints = {}) {
    InitOptions options{.backend = backend, .rank = 0, .world_size = 1};
    options.hints = std::move(hints);
    return Session::create(options).status();
  }

  std::string path_ = "/tmp/distwrap-tuning-XXXXXX";
};

TEST_F(Tuned, TheBackendIsGivenWhatTheFileSays) {
  write("# measured\nshm.sliced_two = 2048\n");
  EXPECT_TRUE(start("shm").ok());
  write("shm.sliced_too = 2048\n");
  const absl::Status status = start("shm");
  EXPECT_EQ(error_reason(status), Reason::kInvalidArgument) << status;
  const std::string text(status.message());
  EXPECT_THAT(text, HasSubstr("'sliced_too' is no threshold"));
  EXPECT_THAT(text, HasSubstr("DISTWRAP_TUNING is " + path_));
  // The values are not for other backends, nor do they override the caller.
  EXPECT_TRUE(start("loopback").ok());
  EXPECT_TRUE(start("shm", {{"tuning", "sliced_two=4096"}}).ok());
  write("nobody.sliced_too = 2048\nloopback.x = 1\n");
  EXPECT_TRUE(start("shm").ok());
  EXPECT_TRUE(start("loopback").ok());
}

TEST_F(Tuned, WhatCannotBeReadIsNamedWithItsLine) {
  write("shm.sliced_two = 2048\nshm.direct_tried\n");
  absl::Status status = start("loopback");
  EXPECT_EQ(error_reason(status), Reason::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + ", line 2"));
  setenv("DISTWRAP_TUNING", "/proc/nowhere", 1);
  status = start("loopback");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("No such file or directory"));
  setenv("DISTWRAP_TUNING", "here", 1);
  status = start("loopback");
  EXPECT_THAT(std::string(status.message()), HasSubstr("DISTWRAP_TUNING"));
}

// The file is not one of the hints that must be equal on all ranks of a group.
TEST_F(Tuned, GroupsOfTunedRanksWork) {
  write("shm.sliced_two = 1024\nshm.direct_tried = 2048\n");
  run_ranks(2, {.backend = "shm", .timeout = absl::Seconds(60)},
            [](Session& session) {
              bind_session(session);
              const auto group = new_group({.group_desc = "again"});
              ASSERT_TRUE(group.ok()) << group.status();
              for (const Group& one : {session.world(), *group})
                for (const size_t count : {10u, 300u, 5000u, 100'000u}) {
                  std::vector<float> x(count, 1);
                  const auto work = all_reduce(
                      TensorView(x.data(), static_cast<int64_t>(count)),
                      ReduceOp::kSum, {.group = one});
                  ASSERT_TRUE(work.ok()) << work.status();
                  EXPECT_EQ(x, std::vector<float>(count, 2));
                }
              bind_session({});
            });
}

}  // namespace
}  // namespace distwrap::testing
