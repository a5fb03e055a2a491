// The valid content of a tuning file, and the refusal of other content.
#include "group/tuning_file.h"

#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace distwrap::group {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(TuningFile, LinesBecomeHints) {
  const auto file = TuningFile::parse(
      "# measured somewhere\n\n"
      "shm.sliced_two = 65536\n"
      "  shm.direct_tried=1048576   # twice as fast\n"
      "x-y.one = 1\r\n",
      "/f");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->hints(),
              ElementsAre(Pair("shm", "sliced_two=65536,direct_tried=1048576"),
                          Pair("x-y", "one=1")));
  const auto empty = TuningFile::parse("# nothing\n", "/f");
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE(empty->hints().empty());
}

TEST(TuningFile, WhatIsWrongIsNamedWithItsLine) {
  for (const char* const bad :
       {"sliced_two = 5", "shm. = 5", ".a = 5", "shm.a",
        "shm.a =", "shm.a = much", "shm.a = -5", "shm.a = 5 = 6", "shm a.b = 5",
        "shm.a.b = 5", "shm.a = 4K", "shm.a,b = 5"}) {
    const absl::Status status =
        TuningFile::parse(std::string("# fine\nshm.z = 7\n") + bad, "/the/file")
            .status();
    EXPECT_EQ(error_reason(status), Reason::kInvalidArgument) << bad;
    const std::string text(status.message());
    EXPECT_THAT(text, HasSubstr("/the/file, line 3")) << bad;
    EXPECT_THAT(text, HasSubstr("backend.name = bytes")) << bad;
    EXPECT_THAT(text, HasSubstr(bad));
  }
  const absl::Status twice =
      TuningFile::parse("shm.a = 5\nshm.a = 6\n", "/f").status();
  EXPECT_THAT(std::string(twice.message()),
              HasSubstr("says it twice: /f, line 2"));
}

TEST(TuningFile, OneThatIsNotThereSaysWhatToDo) {
  const absl::Status status = TuningFile::read("/proc/nowhere").status();
  EXPECT_EQ(error_reason(status), Reason::kInvalidArgument);
  const std::string text(status.message());
  EXPECT_THAT(text,
              HasSubstr("/proc/nowhere: errno 2: No such file or directory"));
  EXPECT_THAT(text, HasSubstr("Next: write one with `distwrap bench tune`"));
}

}  // namespace
}  // namespace distwrap::group
