#include "told_by_ranks.h"

#include "base/settings.h"
#include "launcher.h"

#include <absl/strings/str_cat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdlib.h>
#include <system_error>
#include <utility>

namespace distwrap::cli {
namespace {

namespace fs = std::filesystem;

// A folder for temporary files. Its name differs from those of jobs, because
// the start of a job removes the remains of earlier jobs.
class Scratch {
 public:
  Scratch() {
    std::error_code error;
    const fs::path place = fs::temp_directory_path(error);
    path_ =
        ((error ? fs::path("/tmp") : place) / "told-by-ranks-XXXXXX").string();
    made_ = mkdtemp(path_.data()) != nullptr;
  }
  ~Scratch() {
    std::error_code error;
    if (made_) fs::remove_all(path_, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  bool made() const { return made_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool made_ = false;
};

}  // namespace

absl::StatusOr<std::string> told_by_ranks(int ranks, Words argv) {
  const Scratch scratch;
  if (!scratch.made())
    return absl::InternalError(absl::StrCat("cannot make ", scratch.path(),
                                            ": ", std::strerror(errno)));
  const std::string file = absl::StrCat(scratch.path(), "/told");
  LaunchOptions how;
  how.ranks = ranks;
  how.argv = std::move(argv);
  how.argv.push_back(file);
  // The ranks have nothing to save when one of them has failed.
  how.grace = absl::Seconds(1);
  const absl::StatusOr<int> code = launch(how);
  if (!code.ok()) return code.status();
  if (*code != 0)
    return absl::InternalError(
        absl::StrCat("a rank of ", how.argv[0], " ended with ", *code));
  std::ifstream in(file);
  return std::string(std::istreambuf_iterator<char>(in),
                     std::istreambuf_iterator<char>());
}

bool inside_a_job() {
  return base::Environment::of_process().get(base::Setting::kRank).has_value();
}

absl::StatusOr<std::string> own_path() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) return self.string();
  return absl::InternalError(
      absl::StrCat("cannot tell its own path: ", error.message()));
}

}  // namespace distwrap::cli
