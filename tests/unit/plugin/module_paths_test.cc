#include "plugin/module_paths.h"

#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace distwrap::plugin {
namespace {

using ::testing::HasSubstr;

TEST(ModulePaths, PrefixIsAboveThisProgram) {
  const std::string self =
      std::filesystem::canonical("/proc/self/exe").string();
  EXPECT_EQ(self.rfind(install_prefix() + "/", 0), 0u) << install_prefix();
  EXPECT_EQ(probe_path(), install_prefix() + "/libexec/distwrap/plugin_probe");
}

TEST(ModulePaths, OwnFolderThenThoseOfTheSetting) {
  const auto folders = [](const char* value) {
    return plugin_folders(base::Environment(
        base::Environment::Variables{{"DISTWRAP_PLUGIN_PATH", value}}));
  };
  const std::vector<std::string> own = folders("");
  ASSERT_EQ(own.size(), 1u);
  EXPECT_THAT(own[0], ::testing::StartsWith(install_prefix() + "/lib"));
  EXPECT_THAT(own[0], ::testing::EndsWith("/distwrap/plugins"));
  EXPECT_THAT(folders("/a:/b/c::"),
              ::testing::ElementsAre(own[0], "/a", "/b/c"));
}

TEST(ModulePaths, RelativeEntriesAreLeftOutAloud) {
  std::vector<std::string> lines;
  base::set_log_sink([&](base::LogLevel level, absl::string_view text) {
    EXPECT_EQ(level, base::LogLevel::kWarning);
    lines.emplace_back(text);
  });
  const std::vector<std::string> folders = plugin_folders(base::Environment(
      base::Environment::Variables{{"DISTWRAP_PLUGIN_PATH", "a:/b:./c"}}));
  base::set_log_sink({});
  EXPECT_EQ(folders.back(), "/b");
  EXPECT_EQ(folders.size(), 2u);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("'a'"));
  EXPECT_THAT(lines[1], HasSubstr("'./c'"));
}

}  // namespace
}  // namespace distwrap::plugin
