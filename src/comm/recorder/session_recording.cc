#include "comm/recorder/session_recording.h"

#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
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
// docs/recording.md states this number.
constexpr size_t kKept = 16;
constexpr uintmax_t kKeptBytes = 64 << 20;
constexpr int64_t kQuietNs = 10'000'000'000;

std::string folder_of(const RecordingPlan& plan, const RecordedRank& who) {
  return plan.folder.empty() ? absl::StrCat(plan.parent, "/", kPrefix, who.job)
                             : plan.folder;
}

uintmax_t bytes_in(const fs::path& folder) {
  std::error_code ignored;
  uintmax_t bytes = 0;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    std::error_code gone;
    const uintmax_t size = at->file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

// In a folder that distwrap chose, only the newest recordings stay; the last
// one stays whatever its size.
void remove_old(const std::string& parent) {
  std::error_code ignored;
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  // No call here throws: other ranks may be removing files too.
  for (fs::directory_iterator at(parent, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    std::error_code gone;
    const std::string name = at->path().filename();
    if (absl::StartsWith(name, kPrefix) && at->is_directory(gone))
      found.emplace_back(at->last_write_time(gone), at->path());
  }
  std::sort(found.rbegin(), found.rend());
  uintmax_t bytes = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    bytes += bytes_in(found[i].second);
    if (i > 0 && (i >= kKept || bytes > kKeptBytes))
      fs::remove_all(found[i].second, ignored);
  }
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
  {
    base::MutexLock lock(mutex_);
    saving_ = true;
  }
  const auto save = [self = shared_from_this()] {
    self->save_and_tell();
    base::MutexLock lock(self->mutex_);
    self->saving_ = false;
    self->changed_.notify_all();
  };
  absl::StatusOr<std::thread> thread = base::start_thread("dw-recording", save);
  if (!thread.ok()) return save();
  thread->detach();
  wait_until_saved(Deadline::after(kPatience));
}

void SessionRecording::wait_until_saved(Deadline deadline) {
  base::MutexLock lock(mutex_);
  while (saving_ && changed_.wait_until(mutex_, deadline)) {
  }
}

void SessionRecording::save_and_tell() const {
  const absl::StatusOr<std::string> path = save("failure");
  base::log(base::LogLevel::kInfo,
            path.ok()
                ? absl::StrCat("operations are recorded in ", *path,
                               "; `distwrap info --recorder ",
                               recording_.folder(), "` shows who is behind")
                : std::string(path.status().message()));
}

}  // namespace distwrap::comm
