#include "live/jobs.h"

#include "comm/board/far_memory.h"
#include "comm/board/host_memory.h"

#include <absl/status/status.h>
#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace distwrap::cli {
namespace {

namespace fs = std::filesystem;

// Links to memory without a name begin with these.
const std::string kMemory =
    absl::StrCat("/memfd:", comm::HostMemory::kName, " (");
const std::string kFarMemory =
    absl::StrCat("/memfd:", comm::FarMemory::kName, " (");
// The length of a job's id.
constexpr size_t kIdLetters = 16;

std::string folder_of(int64_t pid) { return absl::StrCat("/proc/", pid); }

std::optional<uid_t> user_of(int64_t pid) {
  struct stat info = {};
  if (stat(folder_of(pid).c_str(), &info) != 0) return std::nullopt;
  return info.st_uid;
}

std::vector<int64_t> processes() {
  std::vector<int64_t> pids;
  std::error_code error;
  fs::directory_iterator entry("/proc", error), end;
  for (; !error && entry != end; entry.increment(error)) {
    int64_t pid = 0;
    if (absl::SimpleAtoi(entry->path().filename().string(), &pid))
      pids.push_back(pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

// The state and the parent in /proc/PID/stat. The process name before them may
// contain any character, so parsing starts behind the last ')'.
struct Stat {
  char state = 0;
  int64_t parent = 0;
};
Stat stat_of(int64_t pid) {
  std::ifstream file(folder_of(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t at = line.rfind(')');
  Stat found;
  if (at == std::string::npos || at + 4 >= line.size()) return found;
  found.state = line[at + 2];
  const size_t parent = at + 4;
  if (!absl::SimpleAtoi(line.substr(parent, line.find(' ', parent) - parent),
                        &found.parent))
    found.parent = 0;
  return found;
}

std::string id_of(const RunningJob& job) {
  return absl::StrCat(absl::Hex(job.board.job, absl::kZeroPad16));
}

// Memory in which a process keeps what it has heard of a job.
struct Told {
  base::Descriptor memory;
  uint64_t job;
  int64_t pid;
};

// Adds the boards that a process has open, and what it has heard.
void look_into(int64_t pid, std::vector<RunningJob>* jobs,
               std::vector<Told>* all_told) {
  std::error_code error;
  fs::directory_iterator entry(folder_of(pid) + "/fd", error), end;
  for (; !error && entry != end; entry.increment(error)) {
    std::error_code unread;
    const std::string target = fs::read_symlink(entry->path(), unread);
    const bool is_far = absl::StartsWith(target, kFarMemory);
    if (unread || (!is_far && !absl::StartsWith(target, kMemory))) continue;
    // Ranks have it open for writing; a process that only reads is an observer
    // like this one.
    struct stat link = {};
    if (lstat(entry->path().c_str(), &link) != 0 ||
        (link.st_mode & S_IWUSR) == 0)
      continue;
    base::Descriptor memory(open(entry->path().c_str(),
                                 O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat info = {};
    if (!memory.is_open() || fstat(memory.get(), &info) != 0) continue;
    if (is_far) {
      auto heard = comm::LiveBoard::read(memory.get());
      if (heard.ok() && heard->job != 0)
        all_told->push_back({std::move(memory), heard->job, pid});
      continue;
    }
    const auto known =
        std::find_if(jobs->begin(), jobs->end(), [&](const RunningJob& job) {
          return job.device == info.st_dev && job.inode == info.st_ino;
        });
    if (known != jobs->end()) {
      if (known->pids.back() != pid) known->pids.push_back(pid);
      continue;
    }
    auto board = comm::LiveBoard::read(memory.get());
    if (!board.ok() || board->job == 0) continue;
    jobs->push_back({std::move(memory),
                     info.st_dev,
                     info.st_ino,
                     {pid},
                     *std::move(board)});
  }
}

absl::Status none() {
  return absl::NotFoundError(
      "no job of yours runs on this host with several ranks that watch each "
      "other; those with DISTWRAP_CHECK=off cannot be seen");
}

bool is_of(const RunningJob& job, int64_t pid) {
  return std::any_of(job.pids.begin(), job.pids.end(), [&](int64_t one) {
    return one == pid || stat_of(one).parent == pid;
  });
}

absl::Status no_such_process(int64_t pid) {
  const std::optional<uid_t> user = user_of(pid);
  if (!user.has_value())
    return absl::NotFoundError(absl::StrCat("there is no process ", pid));
  if (*user != geteuid())
    return absl::PermissionDeniedError(
        absl::StrCat("process ", pid, " belongs to user ", *user,
                     "; only that user sees its job"));
  return absl::NotFoundError(
      absl::StrCat("process ", pid,
                   " is not a rank of a job of several ranks that watch each "
                   "other, and has started none"));
}

}  // namespace

std::vector<RunningJob> running_jobs() {
  std::vector<RunningJob> jobs;
  std::vector<Told> all_told;
  for (const int64_t pid : processes())
    if (user_of(pid) == geteuid()) look_into(pid, &jobs, &all_told);
  for (Told& told : all_told)
    for (RunningJob& job : jobs)
      if (job.board.job == told.job && told.memory.is_open() &&
          std::binary_search(job.pids.begin(), job.pids.end(), told.pid))
        job.told.push_back(std::move(told.memory));
  return jobs;
}

absl::StatusOr<comm::LiveBoard> read_board(const RunningJob& job) {
  absl::StatusOr<comm::LiveBoard> board =
      comm::LiveBoard::read(job.memory.get());
  if (!board.ok()) return board;
  for (const base::Descriptor& memory : job.told)
    if (const auto told = comm::LiveBoard::read(memory.get()); told.ok())
      board->add_told(*told);
  return board;
}

absl::StatusOr<RunningJob> find_job(const std::string& which) {
  int64_t pid = 0;
  const bool is_pid =
      which.size() < kIdLetters && absl::SimpleAtoi(which, &pid) && pid > 0;
  const bool is_id =
      which.size() == kIdLetters &&
      std::all_of(which.begin(), which.end(), [](char c) {
        return absl::ascii_isxdigit(static_cast<unsigned char>(c));
      });
  if (!which.empty() && !is_pid && !is_id)
    return absl::InvalidArgumentError(
        absl::StrCat("'", which,
                     "' is neither a process nor the id of a job, "
                     "16 letters"));
  std::vector<RunningJob> fitting;
  for (RunningJob& job : running_jobs())
    if (which.empty() || (is_pid && is_of(job, pid)) ||
        (is_id && id_of(job) == absl::AsciiStrToLower(which)))
      fitting.push_back(std::move(job));
  if (fitting.size() == 1) return std::move(fitting.front());
  if (fitting.empty()) {
    if (is_pid) return no_such_process(pid);
    if (is_id)
      return absl::NotFoundError(
          absl::StrCat("no job of yours on this host has the id ", which));
    return none();
  }
  std::string text = "several jobs run here; give one of them:";
  for (const RunningJob& job : fitting)
    absl::StrAppend(&text, "\n  --job ", id_of(job), "  processes ",
                    absl::StrJoin(job.pids, ", "));
  return absl::InvalidArgumentError(text);
}

std::string process_state(int64_t pid) {
  switch (stat_of(pid).state) {
    case 'T':
    case 't':
      return "stopped";
    case 0:
    case 'Z':
    case 'X':
      return "ended";
    default:
      return "runs";
  }
}

}  // namespace distwrap::cli
