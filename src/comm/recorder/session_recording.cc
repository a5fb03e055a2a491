#include "comm/recorder/session_recording.h"

#include "base/error.h"
#include "base/log.h"
#include "distwrap/deadline.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <errno.h>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "recording-";
constexpr size_t kKept = 16;
constexpr int64_t kQuietNs = 10'000'000'000;

std::string folder_of(const RecordingPlan& plan, const RecordedRank& who) {
  return plan.folder.empty() ? absl::StrCat(plan.parent, "/", kPrefix, who.job)
                             : plan.folder;
}

// Recordings of jobs long gone, where we chose the place.
void remove_old(const std::string& parent) {
  std::error_code ignored;
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename();
    if (absl::StartsWith(name, kPrefix) && entry.is_directory(ignored))
      found.emplace_back(entry.last_write_time(ignored), entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  for (size_t i = kKept; i < found.size(); ++i)
    fs::remove_all(found[i].second, ignored);
}

}  // namespace

std::shared_ptr<SessionRecording> SessionRecording::make(
    const RecordingPlan& plan, RecordedRank who) {
  if (!plan.on) return nullptr;
  std::unique_ptr<Recorder> recorder = Recorder::make();
  if (recorder == nullptr) return nullptr;
  return std::make_shared<SessionRecording>(std::move(recorder), plan,
                                            std::move(who));
}

SessionRecording::SessionRecording(std::unique_ptr<Recorder> recorder,
                                   RecordingPlan plan, RecordedRank who)
    : recorder_(std::move(recorder)),
      plan_(std::move(plan)),
      recording_(*recorder_, who, folder_of(plan_, who),
                 plan_.folder.empty() ? plan_.parent : "") {
  const bool has_place = !plan_.folder.empty() || !plan_.parent.empty();
  if (plan_.signal != 0 && has_place) signal_.emplace(recording_, plan_.signal);
}

absl::StatusOr<std::string> SessionRecording::save(
    absl::string_view cause) const {
  if (recording_.save(cause)) {
    if (plan_.folder.empty()) remove_old(plan_.parent);
    return recording_.path();
  }
  return base::make_error(
      {.reason = Reason::kRunDirectory,
       .what =
           absl::StrCat("no recording can be written to ", recording_.path()),
       .op = "save_recording",
       .cause = base::errno_text(errno),
       .next_step = "set DISTWRAP_RECORDER_DIR to a folder of yours"});
}

void SessionRecording::save_after_failure() {
  const int64_t now = Deadline::now_ns();
  int64_t quiet = quiet_until_ns_.load(std::memory_order_relaxed);
  if (now < quiet ||
      !quiet_until_ns_.compare_exchange_strong(quiet, now + kQuietNs))
    return;
  const absl::StatusOr<std::string> path = save("failure");
  base::log(base::LogLevel::kInfo,
            path.ok()
                ? absl::StrCat("operations are recorded in ", *path,
                               "; `distwrap info --recorder ",
                               recording_.folder(), "` shows who is behind")
                : std::string(path.status().message()));
}

}  // namespace distwrap::comm
