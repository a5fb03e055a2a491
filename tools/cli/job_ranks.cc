// How a job starts its ranks: environment, descriptors, processes.
#include "base/error.h"
#include "base/settings.h"
#include "job.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <errno.h>
#include <fcntl.h>
#include <map>
#include <unistd.h>
#include <utility>

namespace distwrap::cli {
namespace {

using base::Setting;

absl::Status no_descriptor(absl::string_view what, int error) {
  return base::make_error({.reason = Reason::kResourceLimit,
                           .what = std::string(what),
                           .op = "launch",
                           .cause = base::errno_text(error),
                           .next_step = "see `ulimit -n` and the folder"});
}

}  // namespace

std::vector<std::string> Job::environment_of(int local) const {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(*entry, absl::MaxSplits('=', 1));
    variables.insert(parts);
  }
  for (const auto& [name, value] : options_.env) variables[name] = value;
  const auto set = [&](Setting setting, std::string value) {
    variables[std::string(base::setting_name(setting))] = std::move(value);
  };
  set(Setting::kRank, absl::StrCat(first_rank_ + local));
  set(Setting::kWorldSize, absl::StrCat(world_size_));
  set(Setting::kLocalRank, absl::StrCat(local));
  set(Setting::kLocalWorldSize, absl::StrCat(options_.ranks));
  set(Setting::kStore, absl::StrCat("unix:", directory_->path(), "/store"));
  set(Setting::kJobId, job_id_);
  if (!own_address_.empty() && variables.count("DISTWRAP_ADDRESS") == 0)
    set(Setting::kAddress, own_address_);
  std::vector<std::string> result;
  result.reserve(variables.size());
  for (const auto& [name, value] : variables)
    result.push_back(absl::StrCat(name, "=", value));
  return result;
}

// Chooses the rank's descriptors 0, 1 and 2; those to close afterwards go to
// `to_close`.
absl::Status Job::open_descriptors(Rank* rank, ChildSpec* spec,
                                   std::vector<int>* to_close) {
  // Only one rank can read this process's input. A terminal is not passed on,
  // because reading it would stop a background process group.
  if (rank->number != 0 || isatty(STDIN_FILENO)) {
    spec->descriptors[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (spec->descriptors[0] < 0) return no_descriptor("/dev/null", errno);
    to_close->push_back(spec->descriptors[0]);
  }
  if (options_.output == LaunchOptions::kPassThrough) return absl::OkStatus();
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (options_.output == LaunchOptions::kFiles) {
      const std::string path =
          absl::StrCat(options_.output_dir, "/rank-", rank->number,
                       fd == STDOUT_FILENO ? ".out" : ".err");
      spec->descriptors[fd] =
          open(path.c_str(),
               O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
      if (spec->descriptors[fd] < 0)
        return no_descriptor(absl::StrCat("cannot write ", path), errno);
      to_close->push_back(spec->descriptors[fd]);
      continue;
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return no_descriptor("no pipe can be made", errno);
    spec->descriptors[fd] = ends[1];
    to_close->push_back(ends[1]);
    auto& source = fd == STDOUT_FILENO ? rank->out : rank->err;
    source = std::make_unique<Source>(absl::StrCat("[", rank->number, "] "),
                                      fd == STDOUT_FILENO ? &*out_ : &*err_);
    source->open(&loop_, ends[0]);
  }
  return absl::OkStatus();
}

absl::Status Job::start_rank(int local, const std::string& program) {
  ranks_.push_back(std::make_unique<Rank>());
  Rank* const rank = ranks_.back().get();
  rank->number = first_rank_ + local;
  ChildSpec spec{.path = program, .argv = options_.argv};
  spec.environment = environment_of(local);
  if (!cores_.empty()) spec.core = cores_[static_cast<size_t>(local)];
  std::vector<int> to_close;
  absl::Status status = open_descriptors(rank, &spec, &to_close);
  if (status.ok()) {
    const absl::StatusOr<pid_t> pid = start_child(spec, signal_state_);
    status = pid.status();
    if (pid.ok()) {
      rank->pid = *pid;
      rank->lives = true;
    }
  }
  for (const int fd : to_close) close(fd);
  return status;
}

}  // namespace distwrap::cli
