// Reads the recordings or traces at a path.
#include "bench/replay/read.h"

#include "recordings/recording.h"

#include <absl/strings/str_cat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace distwrap::bench {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMostFileBytes = 64 << 20;

absl::Status refuse(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

absl::StatusOr<std::string> read_file(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error)
    return absl::NotFoundError(
        absl::StrCat(path.string(), ": ", error.message()));
  if (size > kMostFileBytes)
    return refuse(absl::StrCat(path.string(), " is larger than 64 MiB"));
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    return absl::NotFoundError(absl::StrCat(path.string(), " cannot be read"));
  return text.str();
}

absl::StatusOr<ReplayScript> read_folder(const std::string& path) {
  const auto job = cli::read_recordings(path);
  if (job.ok()) return script_of(*job);
  std::vector<std::string> texts;
  for (int rank = 0; rank <= kMostReplayRanks; ++rank) {
    fs::path file = fs::path(path) / absl::StrCat("rank", rank, ".json");
    if (!fs::exists(file)) file = fs::path(path) / absl::StrCat(rank, ".json");
    if (!fs::exists(file)) break;
    absl::StatusOr<std::string> text = read_file(file);
    if (!text.ok()) return text.status();
    texts.push_back(*std::move(text));
  }
  if (texts.empty())
    return refuse(absl::StrCat(path, " has neither recordings (",
                               job.status().message(),
                               ") nor traces rank0.json, rank1.json, ..."));
  absl::StatusOr<ReplayScript> script = script_of_param(texts);
  if (!script.ok()) return script;
  if (absl::Status status = link(&*script, false); !status.ok()) return status;
  return script;
}

}  // namespace

absl::StatusOr<ReplayScript> read_replay(const std::string& path) {
  if (fs::is_directory(path)) return read_folder(path);
  const absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return text.status();
  absl::StatusOr<cli::RankRecording> recording = cli::parse_recording(*text);
  if (recording.ok()) {
    if (recording->world_size != 1)
      return refuse(absl::StrCat(path, " is the recording of one rank of ",
                                 recording->world_size,
                                 ": give the folder of all"));
    return script_of({{*std::move(recording)}, {}});
  }
  absl::StatusOr<ReplayScript> script = script_of_param({*text});
  if (!script.ok()) return script;
  if (absl::Status status = link(&*script, false); !status.ok()) return status;
  return script;
}

}  // namespace distwrap::bench
