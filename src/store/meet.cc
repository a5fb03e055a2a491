#include "base/error.h"
#include "base/log.h"
#include "base/read_file.h"
#include "store/client.h"
#include "store/host_agent.h"
#include "store/hosted_store.h"
#include "store/process_identity.h"
#include "store/rendezvous.h"
#include "store/store_place.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace distwrap::store {
namespace {

// A rank looks for a note at this interval. Another host leaves none, and needs
// more time for an answer.
constexpr absl::Duration kStep = absl::Milliseconds(100);
constexpr absl::Duration kRemoteStep = absl::Seconds(3);

std::string note_path(const Rendezvous& place) {
  return absl::StrCat(place.hosted_path, ".note");
}

// The note that rank 0 leaves when it gives up.
struct Note {
  int64_t when_ns = 0;
  std::string why = {};
};

// The note, if it was written after this process had started. An older note
// belongs to an earlier job of the same name.
std::optional<Note> find_note(const Rendezvous& place) {
  if (place.hosted_path.empty()) return std::nullopt;
  const std::string path = note_path(place);
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != geteuid())
    return std::nullopt;
  const std::string text = base::read_file(path).value_or("");
  absl::string_view left = text;
  Note note;
  if (!absl::SimpleAtoi(base::take_line(&left), &note.when_ns) ||
      note.when_ns <= own_start_ns())
    return std::nullopt;
  note.why = std::string(base::take_line(&left));
  return note;
}

absl::Status gave_up(const Rendezvous& place, const Note& note,
                     std::string what, std::string next_step) {
  return base::make_error(
      {.reason = Reason::kRefused,
       .what = std::move(what),
       .op = "init",
       .my_rank = place.rank,
       .group_size = place.world_size,
       .elapsed = absl::Nanoseconds(boot_clock_ns() - note.when_ns),
       .cause = note.why,
       .next_step = std::move(next_step)});
}

// kRefused when rank 0 gave up before this rank reached it.
absl::Status check_note(const Rendezvous& place) {
  const std::optional<Note> note = find_note(place);
  if (!note.has_value()) return absl::OkStatus();
  return gave_up(place, *note,
                 absl::StrCat("rank ", place.rank,
                              " came too late: rank 0 gave up and ended"),
                 "start all ranks within the init deadline "
                 "(DISTWRAP_INIT_TIMEOUT)");
}

// The time of this process's last attempt to meet. A server that was killed
// before may be about to be replaced.
std::atomic<int64_t>& last_try_ns() {
  static std::atomic<int64_t> ns{0};
  return ns;
}

// kRefused when rank 0 was killed before this rank could reach it.
absl::Status find_dead_host(const Rendezvous& place, int64_t since_ns) {
  if (place.hosted_path.empty()) return absl::OkStatus();
  const std::optional<DeadHost> host = dead_host(place.hosted_path);
  if (!host.has_value() || host->since_ns <= since_ns) return absl::OkStatus();
  return base::make_error(
      {.reason = Reason::kStoreUnreachable,
       .what = absl::StrCat("rank 0, process ", host->pid,
                            ", which served the store at ", place.address,
                            ", was killed"),
       .op = "init",
       .my_rank = place.rank,
       .group_size = place.world_size,
       .ranks = {0},
       .next_step = "find out what killed it, and look at its output"});
}

// Checks that the store answers: the socket may belong to another program,
// whose silence would last until the deadline.
absl::Status ask(Store& store, const Rendezvous& place, Deadline deadline) {
  if (place.hosted_path.empty()) return absl::OkStatus();
  for (;;) {
    const absl::Status status =
        store
            .compare_set("?", "?", "?",
                         Deadline::earlier(deadline, Deadline::after(kStep)))
            .status();
    if (status.ok()) return status;
    if (absl::Status note = check_note(place); !note.ok()) return note;
    if (error_reason(status) != Reason::kTimedOut || deadline.passed())
      return status;
  }
}

}  // namespace

absl::Status why_store_is_gone(const Rendezvous& place, absl::Status lost) {
  if (place.rank == 0 || error_reason(lost) != Reason::kStoreUnreachable)
    return lost;
  if (const std::optional<Note> note = find_note(place); note.has_value())
    return gave_up(place, *note, "rank 0 gave up and ended",
                   "see what rank 0 printed");
  // This rank had reached rank 0, so the time of rank 0's start does not
  // matter.
  constexpr int64_t kAnyTime = 0;
  if (absl::Status dead = find_dead_host(place, kAnyTime); !dead.ok())
    return dead;
  return lost;
}

void leave_note(const Rendezvous& place, absl::string_view why) {
  if (place.rank != 0 || place.hosted_path.empty()) return;
  // Written under another name and renamed, so that no rank reads half of it.
  const std::string part = absl::StrCat(note_path(place), ".part");
  {
    std::ofstream file(part, std::ios::trunc);
    file << boot_clock_ns() << "\n" << std::string(why) << "\n";
  }
  if (rename(part.c_str(), note_path(place).c_str()) != 0) unlink(part.c_str());
}

void remove_note(const Rendezvous& place) {
  if (place.rank != 0 || place.hosted_path.empty()) return;
  unlink(note_path(place).c_str());
}

absl::StatusOr<std::shared_ptr<Store>> meet(const Rendezvous& place,
                                            Deadline deadline,
                                            absl::Duration report_every) {
  const int64_t since_ns = std::max(own_start_ns(), last_try_ns().load());
  const absl::Cleanup tried = [] { last_try_ns() = boot_clock_ns(); };
  if (place.rank == 0 && !place.hosted_path.empty()) {
    if (absl::Status status =
            host_store(place.hosted_path, deadline, place.network);
        !status.ok()) {
      // When another process serves at the path, the note tells the other
      // ranks.
      if (error_reason(status) == Reason::kRunDirectory)
        leave_note(place, error_info(status)->what);
      return status;
    }
    remove_note(place);
  }
  absl::StatusOr<StorePlace> where =
      StorePlace::parse(place.address, place.job);
  if (!where.ok()) return where.status();
  if (!place.agent_path.empty())
    where->go_through(std::make_shared<HostAgent>(place.agent_path, *where));
  const absl::Duration step = where->is_remote() ? kRemoteStep : kStep;
  const int64_t started = Deadline::now_ns();
  Deadline report = Deadline::after(report_every);
  for (;;) {
    bool hopeless = false;
    absl::StatusOr<std::shared_ptr<ClientStore>> store = connect_to(
        *where, Deadline::earlier(deadline, Deadline::after(step)), &hopeless);
    if (store.ok()) {
      if (absl::Status status = ask(**store, place, deadline); !status.ok())
        return status;
      return store;
    }
    if (error_reason(store.status()) != Reason::kStoreUnreachable || hopeless)
      return store.status();
    if (absl::Status status = check_note(place); !status.ok()) return status;
    if (absl::Status status = find_dead_host(place, since_ns); !status.ok())
      return status;
    const absl::Duration elapsed =
        absl::Nanoseconds(Deadline::now_ns() - started);
    if (deadline.passed())
      return base::amend_error(store.status(), [&](ErrorInfo& info) {
        info.my_rank = place.rank;
        info.group_size = place.world_size;
        info.elapsed = elapsed;
        if (place.hosted_path.empty()) return;
        info.next_step =
            "check whether rank 0, which serves it, was started on this host "
            "by this user, and look at its output";
        if (!place.taken_for_own.empty())
          absl::StrAppend(&info.next_step, "; where it runs on another host, '",
                          place.taken_for_own,
                          "' has to be replaced by an address of that host, "
                          "since it means this one");
      });
    if (!report.passed()) continue;
    report = Deadline::after(report_every);
    base::log(
        base::LogLevel::kWarning,
        absl::StrCat(
            "rank ", place.rank, " waits since ",
            absl::FormatDuration(absl::Trunc(elapsed, absl::Milliseconds(1))),
            " for the store at ", place.address,
            place.hosted_path.empty() ? "" : ", which rank 0 serves"));
  }
}

}  // namespace distwrap::store
