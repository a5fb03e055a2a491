// A folder for one test, with copies of plugins.
#ifndef DISTWRAP_TESTS_UNIT_PLUGIN_SCRATCH_H_
#define DISTWRAP_TESTS_UNIT_PLUGIN_SCRATCH_H_

#include "distwrap/status.h"
#include "plugin/refusal.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdlib.h>
#include <string>
#include <sys/stat.h>

namespace distwrap::plugin {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::string test_plugin(absl::string_view name) {
  return absl::StrCat(DW_TEST_PLUGINS "/", name, ".so");
}

class Scratch {
 public:
  Scratch() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "distwrap_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = std::filesystem::canonical(pattern).string();
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string path(absl::string_view name) const {
    return absl::StrCat(path_, "/", name);
  }
  std::string folder(absl::string_view name) const {
    std::filesystem::create_directories(path(name));
    EXPECT_EQ(chmod(path(name).c_str(), 0755), 0);
    return path(name);
  }
  std::string write(absl::string_view name, absl::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    EXPECT_EQ(chmod(path(name).c_str(), 0755), 0);
    return path(name);
  }
  // A copy is another file, so its constructors run again.
  std::string copy(absl::string_view plugin, absl::string_view name) const {
    return write(name, read_file(test_plugin(plugin)));
  }

 private:
  std::string path_;
};

// Tells whether a constructor of a test plugin has run since the mark was made.
class Mark {
 public:
  Mark() : path_(scratch_.path("mark")) {
    setenv("DW_TEST_MARK", path_.c_str(), 1);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  ~Mark() { unsetenv("DW_TEST_MARK"); }
  bool is_there() const { return std::filesystem::exists(path_); }

 private:
  Scratch scratch_;
  std::string path_;
};

// Checks that the status is this refusal, with everything needed to act on it.
inline void expect_refused(const absl::Status& status, Refusal refusal,
                           absl::string_view about = "") {
  EXPECT_EQ(error_reason(status), Reason::kPluginRefused) << status;
  const std::string message(status.message());
  EXPECT_THAT(message, ::testing::HasSubstr(
                           absl::StrCat(": ", refusal_name(refusal), ": ")));
  EXPECT_THAT(message, ::testing::HasSubstr(std::string(about)));
  EXPECT_THAT(message, ::testing::HasSubstr("Next: "));
}

}  // namespace distwrap::plugin

#endif  // DISTWRAP_TESTS_UNIT_PLUGIN_SCRATCH_H_
