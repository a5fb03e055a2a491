// A new folder to which sessions write their recordings while the object lives.
#ifndef DISTWRAP_TESTS_RANKS_RECORDINGS_FOLDER_H_
#define DISTWRAP_TESTS_RANKS_RECORDINGS_FOLDER_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace distwrap::testing {

class RecordingsFolder {
 public:
  RecordingsFolder() {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
    setenv("DISTWRAP_RECORDER_DIR", path_.c_str(), 1);
  }
  ~RecordingsFolder() {
    unsetenv("DISTWRAP_RECORDER_DIR");
    std::filesystem::remove_all(path_);
  }
  RecordingsFolder(const RecordingsFolder&) = delete;
  RecordingsFolder& operator=(const RecordingsFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/recordings_XXXXXX";
};

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_RECORDINGS_FOLDER_H_
