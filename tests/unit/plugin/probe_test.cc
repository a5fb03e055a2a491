#include "plugin/probe.h"

#include "base/log.h"
#include "distwrap/deadline.h"
#include "plugin/loader.h"
#include "scratch.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>

namespace distwrap::plugin {
namespace {

TEST(Probe, TheHelperIsFoundInTheBuildTree) {
  EXPECT_TRUE(std::filesystem::exists(probe_path())) << probe_path();
}

TEST(Probe, GoodPluginsPass) {
  EXPECT_TRUE(probe(test_plugin("echo_c"), {}).ok());
  const absl::Status talks = probe(test_plugin("talks"), {});
  EXPECT_TRUE(talks.ok()) << "what it prints does not matter: " << talks;
  EXPECT_FALSE(waitpid(-1, nullptr, WNOHANG) > 0) << "a child is left";
}

TEST(Probe, CrashesAreNamed) {
  expect_refused(probe(test_plugin("aborts"), {}), Refusal::kCrashes,
                 "SIGABRT");
  expect_refused(probe(test_plugin("throws"), {}), Refusal::kCrashes,
                 "SIGABRT");
  expect_refused(probe(test_plugin("query_throws"), {}), Refusal::kCrashes,
                 "SIGABRT");
  expect_refused(probe(test_plugin("exits"), {}), Refusal::kCrashes, "exit 0");
}

TEST(Probe, TheHostOutlivesACrashingPlugin) {
  // Twice, because a refused file is not remembered.
  for (int i = 0; i < 2; ++i)
    expect_refused(load_plugin(test_plugin("aborts")).status(),
                   Refusal::kCrashes);
}

TEST(Probe, HangsAreEnded) {
  const int64_t start = Deadline::now_ns();
  expect_refused(
      load_plugin(test_plugin("hangs"), {.limit = absl::Milliseconds(300)})
          .status(),
      Refusal::kHangs, "300ms");
  const absl::Duration took = absl::Nanoseconds(Deadline::now_ns() - start);
  EXPECT_GE(took, absl::Milliseconds(300));
  EXPECT_LT(took, absl::Seconds(8));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST(Probe, LinkerErrorsAreTheCause) {
  expect_refused(probe(test_plugin("undefined"), {}), Refusal::kNotLoadable,
                 "dw_test_nobody_defines_this");
}

TEST(Probe, WorksWhenChildrenAreNotWaitedFor) {
  // A program that ignores SIGCHLD never sees the end of its children.
  const auto before = signal(SIGCHLD, SIG_IGN);
  EXPECT_TRUE(probe(test_plugin("echo_c"), {}).ok());
  expect_refused(probe(test_plugin("aborts"), {}), Refusal::kCrashes,
                 "no answer");
  signal(SIGCHLD, before);
}

TEST(Probe, WithoutAHelperThereIsNoTrial) {
  std::vector<std::string> lines;
  base::set_log_sink([&](base::LogLevel, absl::string_view text) {
    lines.emplace_back(text);
  });
  base::set_log_level(base::LogLevel::kInfo);
  const absl::Status status =
      probe(test_plugin("aborts"), {.helper = "/nonexistent/plugin_probe"});
  base::set_log_level(base::LogLevel::kWarning);
  base::set_log_sink({});
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], ::testing::HasSubstr("/nonexistent/plugin_probe"));
}

TEST(Probe, AFileIsTriedOnce) {
  const Scratch scratch;
  const std::string path = scratch.copy("echo_c", "x.so");
  // The helper counts its runs.
  const std::string helper =
      scratch.write("helper", "#!/bin/sh\necho run >> " + scratch.path("runs") +
                                  "\nexec '" + probe_path() + "' \"$1\"\n");
  const ProbeOptions options = {.helper = helper};
  ASSERT_TRUE(load_plugin(path, options).ok());
  ASSERT_TRUE(load_plugin(path, options).ok());
  EXPECT_EQ(read_file(scratch.path("runs")), "run\n");
  scratch.copy("echo_cc", "y.so");
  std::filesystem::rename(scratch.path("y.so"), path);
  ASSERT_TRUE(load_plugin(path, options).ok());
  EXPECT_EQ(read_file(scratch.path("runs")), "run\nrun\n") << "another file";
}

}  // namespace
}  // namespace distwrap::plugin
