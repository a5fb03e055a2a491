#include "plugin/allow_list.h"

#include "plugin/loader.h"
#include "scratch.h"

#include <absl/strings/ascii.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::plugin {
namespace {

using ::testing::HasSubstr;

// From FIPS 180-4's examples: the hash of "abc".
constexpr char kAbc[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(AllowList, HashesOfFilesAreThoseOfSha256) {
  const Scratch scratch;
  EXPECT_EQ(*sha256_of_file(scratch.write("abc", "abc")), kAbc);
  EXPECT_EQ(*sha256_of_file(scratch.write("empty", "")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(*sha256_of_file(scratch.write("large", std::string(200000, 'a'))),
            *sha256_of_file(scratch.write("again", std::string(200000, 'a'))));
  EXPECT_FALSE(sha256_of_file(scratch.path("none")).ok());
}

TEST(AllowList, WithoutAListEverythingIsAllowed) {
  EXPECT_TRUE(AllowList().allows(kAbc));
  EXPECT_FALSE(AllowList::parse("")->allows(kAbc));
}

TEST(AllowList, TakesWhatSha256sumPrints) {
  const auto list = AllowList::parse(absl::StrCat(
      "# ours\n\n", absl::AsciiStrToUpper(kAbc), "  libdistwrap_x.so\n"));
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_TRUE(list->allows(kAbc));
  EXPECT_FALSE(list->allows(std::string(64, '0')));
}

TEST(AllowList, JunkIsNamedByItsLine) {
  for (const char* junk : {"abc", "zz", "ba7816bf  x"}) {
    const auto list = AllowList::parse(absl::StrCat(kAbc, " x\n", junk, "\n"));
    EXPECT_EQ(error_reason(list.status()), Reason::kInvalidArgument);
    EXPECT_THAT(std::string(list.status().message()), HasSubstr("line 2"));
  }
  EXPECT_EQ(error_reason(AllowList::read("allowed").status()),
            Reason::kInvalidArgument);
  EXPECT_EQ(error_reason(AllowList::read("/no/such/list").status()),
            Reason::kInvalidArgument);
}

TEST(AllowList, NothingRunsOfAFileThatIsNotOnIt) {
  const Scratch scratch;
  const std::string path = scratch.copy("echo_c", "x.so");
  {
    const Mark mark;
    const absl::Status status =
        load_plugin(path, {}, *AllowList::parse(kAbc)).status();
    expect_refused(status, Refusal::kNotAllowed);
    EXPECT_FALSE(mark.is_there()) << "its constructor ran";
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(*sha256_of_file(path)));
  }
  EXPECT_TRUE(
      load_plugin(path, {}, *AllowList::parse(*sha256_of_file(path))).ok());
}

}  // namespace
}  // namespace distwrap::plugin
