#include "store/init_method.h"

#include "distwrap/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::store {
namespace {

using ::testing::HasSubstr;

TEST(InitMethod, EveryKind) {
  EXPECT_EQ(parse_init_method("")->kind, InitMethod::kEnvironment);
  EXPECT_EQ(parse_init_method("env://")->kind, InitMethod::kEnvironment);
  const auto tcp = parse_init_method("tcp://localhost:29500");
  ASSERT_TRUE(tcp.ok()) << tcp.status();
  EXPECT_EQ(tcp->kind, InitMethod::kTcp);
  EXPECT_EQ(tcp->place, "localhost:29500");
  EXPECT_EQ(tcp->rank, -1);
  EXPECT_EQ(parse_init_method("tcp://[::1]:1")->place, "[::1]:1");
  EXPECT_EQ(parse_init_method("file:///a/b")->place, "/a/b");
  EXPECT_EQ(parse_init_method("unix:/a/b?c")->place, "/a/b?c");
  EXPECT_EQ(parse_init_method("unix:///a/b")->place, "/a/b");
}

TEST(InitMethod, Parameters) {
  const auto both =
      parse_init_method("tcp://localhost:29500?rank=1&world_size=4");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->rank, 1);
  EXPECT_EQ(both->world_size, 4);
  EXPECT_EQ(both->place, "localhost:29500");
  EXPECT_EQ(parse_init_method("file:///x?rank=0")->rank, 0);
  EXPECT_EQ(parse_init_method("env://?world_size=2")->world_size, 2);
}

TEST(InitMethod, JunkIsNamed) {
  for (const char* junk : {"tpc://a:1",
                           "localhost:1",
                           "tcp:localhost:1",
                           "tcp://localhost",
                           "tcp://:1",
                           "tcp://a:0",
                           "tcp://a:65536",
                           "tcp://a:x",
                           "tcp://a/b:1",
                           "file://relative",
                           "file:///",
                           "file:///folder/",
                           "unix:relative",
                           "unix:",
                           "env://place",
                           "env",
                           "/a/b",
                           "tcp://a:1?rank=-1",
                           "tcp://a:1?rank=",
                           "tcp://a:1?rank=one",
                           "tcp://a:1?ranks=1",
                           "tcp://a:1?",
                           "tcp://a:1?world_size=99999999999"}) {
    const absl::Status status = parse_init_method(junk).status();
    EXPECT_EQ(error_reason(status), Reason::kInvalidArgument)
        << junk << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(junk));
  }
  EXPECT_THAT(std::string(parse_init_method("tpc://a:1").status().message()),
              HasSubstr("did you mean 'tcp'?"));
  EXPECT_THAT(
      std::string(parse_init_method("tcp://a:1?ranl=1").status().message()),
      HasSubstr("did you mean 'rank'?"));
}

}  // namespace
}  // namespace distwrap::store
