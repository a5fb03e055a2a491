// Tools outside of a process see its door and what it has refused.
#include "guarded.h"

#include <gmock/gmock.h>

#include <stdio.h>
#include <string>
#include <thread>
#include <time.h>
#include <unistd.h>

namespace distwrap {
namespace {

using ::testing::HasSubstr;

// The output of the command, which itself runs without the door.
std::string output_of(const std::string& arguments) {
  const std::string line =
      "env -u LD_PRELOAD " DISTWRAP " " + arguments + " 2>&1";
  FILE* const pipe = popen(line.c_str(), "r");
  std::string text;
  char part[4096];
  for (size_t got; (got = fread(part, 1, sizeof part, pipe)) > 0;)
    text.append(part, got);
  pclose(pipe);
  return text;
}

class GuardOutside : public Guard {};

TEST_F(GuardOutside, ToolsShowTheDoorAndWhatItRefused) {
  const auto store = Store::in_memory();
  const auto start = [&](int me, absl::StatusOr<Session>* made) {
    *made = Session::create({.rank = me,
                             .world_size = 2,
                             .store = store,
                             .guard = GuardMode::kBlock});
  };
  absl::StatusOr<Session> first, second;
  std::thread other(start, 1, &second);
  start(0, &first);
  other.join();
  ASSERT_TRUE(first.ok() && second.ok()) << first.status();
  uint64_t before = 0;
  for (const GuardStatus::Function& one : guard_status().refusals)
    before += one.refused;
  EXPECT_EQ(call_send(), kRefused);
  EXPECT_EQ(call_send(), kRefused);
  const std::string shown = "block, " + std::to_string(before + 2) + " refused";
  const std::string live = "info --live --job " + std::to_string(getpid());
  std::string text;
  // Ranks write what others see at their next look.
  for (int i = 0; i < 100 && text.find(shown) == std::string::npos; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    text = output_of(live);
  }
  EXPECT_THAT(text, HasSubstr(shown));
  EXPECT_THAT(text, HasSubstr("direct calls"));
  EXPECT_THAT(output_of("doctor"), HasSubstr("the door is loaded in "));

  std::thread closing([&] { EXPECT_TRUE(second->close().ok()); });
  EXPECT_TRUE(first->close().ok());
  closing.join();
}

}  // namespace
}  // namespace distwrap
