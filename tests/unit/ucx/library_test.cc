// A missing UCX, and an unsuitable one.
#include "host.h"
#include "messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::ucx_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

dw_error open_with(const std::string& library) {
  const dw_hint hint = {{"library", 7}, {library.data(), library.size()}};
  dw_open_info info = {};
  info.struct_size = sizeof info;
  info.device_type = DW_DEVICE_CPU;
  info.hints = &hint;
  info.n_hints = 1;
  dw_backend* backend = nullptr;
  dw_error error = {};
  const int32_t code =
      ucx().open(&conformance::host_table(), &info, &backend, &error);
  EXPECT_EQ(code, error.code);
  if (code == DW_OK) ucx().close(backend);
  return error;
}

TEST(UcxLibrary, ThatIsMissingIsNamed) {
  const dw_error error = open_with("/nowhere/libucp.so.0");
  EXPECT_EQ(error.code, DW_UNAVAILABLE);
  EXPECT_THAT(error.text,
              AllOf(HasSubstr("/nowhere/libucp.so.0"), HasSubstr("1.13")));
}

TEST(UcxLibrary, ThatIsTooOldIsNamedWithBothVersions) {
  const dw_error error = open_with(OLD_UCX);
  EXPECT_EQ(error.code, DW_UNAVAILABLE);
  EXPECT_THAT(error.text, AllOf(HasSubstr("UCX 1.10.2"), HasSubstr("1.13")));
}

TEST(UcxLibrary, ThatLacksAFunctionIsNamedWithIt) {
  const dw_error error = open_with(PARTIAL_UCX);
  EXPECT_EQ(error.code, DW_UNAVAILABLE);
  EXPECT_THAT(error.text, AllOf(HasSubstr("UCX 1.20.0"), HasSubstr("no uc")));
}

TEST(UcxLibrary, IsSomethingElse) {
  const dw_error error = open_with("libm.so.6");
  EXPECT_EQ(error.code, DW_UNAVAILABLE);
  EXPECT_THAT(error.text, HasSubstr("ucp_get_version"));
}

// Runs in a process that has not opened UCX yet.
TEST(UcxLibrary, TakesNoSignals) {
  const pid_t pid = fork();
  if (pid == 0) {
    struct sigaction before[32], now;
    for (int i = 1; i < 32; ++i) sigaction(i, nullptr, &before[i]);
    int status = open_with("libucp.so.0").code == DW_OK ? 0 : 1;
    for (int i = 1; i < 32; ++i) {
      sigaction(i, nullptr, &now);
      if (now.sa_handler != before[i].sa_handler) status = i;
    }
    _exit(status);
  }
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1, or the signal";
}

}  // namespace
}  // namespace distwrap::ucx_test
