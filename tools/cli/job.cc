#include "job.h"

#include "base/error.h"
#include "base/settings.h"
#include "distwrap/deadline.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <errno.h>
#include <fcntl.h>
#include <map>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::cli {
namespace {

using base::Setting;

// The signals that ask the job to end come first.
constexpr int kForwarded[] = {SIGINT,  SIGTERM, SIGHUP,
                              SIGQUIT, SIGUSR1, SIGUSR2};
constexpr absl::Duration kTermTime = absl::Seconds(2);
// The time for output that a process outside of the ranks' groups may still
// write.
constexpr absl::Duration kDrainTime = absl::Milliseconds(300);

bool asks_to_end(int signal) { return signal != SIGUSR1 && signal != SIGUSR2; }

std::string signal_name(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal)
                         : absl::StrCat("SIG", name);
}

std::string make_job_id() {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
    number = static_cast<uint64_t>(getpid()) << 32 ^
             static_cast<uint64_t>(Deadline::now_ns());
  return absl::StrCat(absl::Hex(number, absl::kZeroPad16));
}

absl::Status no_descriptor(absl::string_view what, int error) {
  return base::make_error({.reason = Reason::kResourceLimit,
                           .what = std::string(what),
                           .op = "launch",
                           .cause = base::errno_text(error),
                           .next_step = "see `ulimit -n` and the folder"});
}

}  // namespace

Job::Job(const LaunchOptions& options)
    : options_(options), job_id_(make_job_id()) {
  uv_loop_init(&loop_);
  uv_timer_init(&loop_, &timer_);
  timer_.data = this;
  out_.emplace(&loop_, STDOUT_FILENO);
  err_.emplace(&loop_, STDERR_FILENO);
  for (Sink* sink : {&*out_, &*err_})
    sink->on_idle = [this] {
      for (const auto& rank : ranks_)
        for (Source* source : {rank->out.get(), rank->err.get()})
          if (source != nullptr) source->resume();
    };
}

Job::~Job() {
  for (const auto& rank : ranks_) {
    if (!rank->lives) continue;
    kill(-rank->pid, SIGKILL);
    waitpid(rank->pid, nullptr, 0);
    rank->lives = false;
  }
  server_.reset();
  close_sources();
  out_->close();
  err_->close();
  for (const auto& signal : signals_)
    uv_close(reinterpret_cast<uv_handle_t*>(signal.get()), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&timer_), nullptr);
  uv_run(&loop_, UV_RUN_DEFAULT);
  uv_loop_close(&loop_);
}

absl::Status Job::start(const std::string& program) {
  auto directory = store::RunDirectory::make(base::Environment::of_process());
  if (!directory.ok()) return directory.status();
  directory_.emplace(*std::move(directory));
  auto server = store::Server::listen(&loop_, directory_->path() + "/store");
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  take_signals();
  if (options_.pin) {
    cores_ = usable_cores();
    if (cores_.size() < static_cast<size_t>(options_.ranks)) {
      say(absl::StrCat("not pinned: ", options_.ranks, " ranks on ",
                       cores_.size(), " cores"));
      cores_.clear();
    }
  }
  for (int i = 0; i < options_.ranks; ++i)
    if (absl::Status status = start_rank(i, program); !status.ok())
      return status;
  return absl::OkStatus();
}

void Job::take_signals() {
  // A closed reader of the output must cause an error code, not a signal.
  signal(SIGPIPE, SIG_IGN);
  std::vector<int> wanted = {SIGCHLD};
  for (const int signal : kForwarded)
    if (!signal_state_.is_ignored(signal)) wanted.push_back(signal);
  sigset_t ours;
  sigemptyset(&ours);
  for (const int signal : wanted) {
    sigaddset(&ours, signal);
    auto handle = std::make_unique<uv_signal_t>();
    uv_signal_init(&loop_, handle.get());
    handle->data = this;
    uv_signal_start(
        handle.get(),
        [](uv_signal_t* which, int number) {
          static_cast<Job*>(which->data)->on_signal(number);
        },
        signal);
    signals_.push_back(std::move(handle));
  }
  pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
}

std::vector<std::string> Job::environment_of(int number) const {
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
  set(Setting::kRank, absl::StrCat(number));
  set(Setting::kWorldSize, absl::StrCat(options_.ranks));
  set(Setting::kLocalRank, absl::StrCat(number));
  set(Setting::kLocalWorldSize, absl::StrCat(options_.ranks));
  set(Setting::kStore, absl::StrCat("unix:", directory_->path(), "/store"));
  set(Setting::kJobId, job_id_);
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

absl::Status Job::start_rank(int number, const std::string& program) {
  ranks_.push_back(std::make_unique<Rank>());
  Rank* const rank = ranks_.back().get();
  rank->number = number;
  ChildSpec spec{.path = program, .argv = options_.argv};
  spec.environment = environment_of(number);
  if (!cores_.empty()) spec.core = cores_[static_cast<size_t>(number)];
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

int Job::living() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(),
                    [](const auto& rank) { return rank->lives; }));
}

void Job::signal_all(int signal) {
  for (const auto& rank : ranks_)
    if (rank->lives) kill(-rank->pid, signal);
}

void Job::on_signal(int signal) {
  if (signal == SIGCHLD) return on_children();
  if (living() == 0) {
    // Only output is left, whose reader may never read it.
    close_sources();
    out_->close();
    err_->close();
    return;
  }
  if (asks_to_end(signal) && signalled_ != 0) {
    stage_ = Stage::kTerm;
    return next_stage();
  }
  signal_all(signal);
  if (!asks_to_end(signal)) return;
  signalled_ = signal;
  if (stage_ == Stage::kRunning) {
    stage_ = Stage::kGrace;
    set_timer(options_.grace);
  }
}

void Job::on_children() {
  std::vector<End> ends;
  for (const auto& rank : ranks_) {
    if (!rank->lives) continue;
    siginfo_t info = {};
    if (waitid(P_PID, static_cast<id_t>(rank->pid), &info,
               WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
      continue;
    // Kills the rank's process group as well. Until the rank is reaped, its id
    // cannot be given to another group.
    kill(-rank->pid, SIGKILL);
    waitpid(rank->pid, nullptr, 0);
    rank->lives = false;
    const bool exited = info.si_code == CLD_EXITED;
    ends.push_back(
        {rank.get(), exited ? info.si_status : 0, exited ? 0 : info.si_status});
  }
  // A rank that was killed is the likely cause of the errors of others.
  std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) {
    return (a.signal != 0) > (b.signal != 0);
  });
  for (const End& end : ends) on_end(end);
  if (!ends.empty() && living() == 0) set_timer(kDrainTime);
}

void Job::on_end(const End& end) {
  const int code = end.signal != 0 ? 128 + end.signal : end.code;
  if (code == 0) return;
  // The end of a rank that this launcher has signalled is no news.
  if (stage_ >= Stage::kTerm) {
    if (code_ == 0) code_ = code;
    return;
  }
  if (end.signal == 0 || end.signal != signalled_) {
    std::string text =
        absl::StrCat("rank ", end.rank->number, " (pid ", end.rank->pid, ") ");
    if (end.signal != 0)
      absl::StrAppend(&text, "was killed by ", signal_name(end.signal), " (",
                      strsignal(end.signal), ")");
    else
      absl::StrAppend(&text, "exited with code ", end.code);
    if (const int others = living(); others > 0 && stage_ == Stage::kRunning)
      absl::StrAppend(&text, "; the ",
                      others == 1 ? std::string("other is")
                                  : absl::StrCat(others, " others are"),
                      " ended in ", absl::FormatDuration(options_.grace));
    say(text);
  }
  if (code_ == 0) code_ = code;
  if (stage_ != Stage::kRunning) return;
  stage_ = Stage::kGrace;
  set_timer(options_.grace);
}

void Job::set_timer(absl::Duration after) {
  uv_update_time(&loop_);
  uv_timer_start(
      &timer_,
      [](uv_timer_t* timer) { static_cast<Job*>(timer->data)->next_stage(); },
      static_cast<uint64_t>(
          absl::ToInt64Milliseconds(std::max(after, absl::ZeroDuration()))),
      0);
}

void Job::next_stage() {
  if (living() == 0) {
    // A slow reader delays the data that are still in the pipes.
    if (!out_->is_idle() || !err_->is_idle()) return set_timer(kDrainTime);
    // A process that still writes to the pipes belongs to no rank's group.
    return close_sources();
  }
  if (stage_ == Stage::kGrace) {
    stage_ = Stage::kTerm;
    signal_all(SIGTERM);
    // A stopped process handles the signal when it continues.
    signal_all(SIGCONT);
    return set_timer(kTermTime);
  }
  stage_ = Stage::kKill;
  signal_all(SIGKILL);
}

void Job::close_sources() {
  for (const auto& rank : ranks_)
    for (Source* source : {rank->out.get(), rank->err.get()})
      if (source != nullptr) source->close();
}

// Whether all ranks have ended and all their output is written.
bool Job::is_done() const {
  const auto reads = [](const std::unique_ptr<Source>& source) {
    return source != nullptr && source->is_open();
  };
  return living() == 0 && out_->is_idle() && err_->is_idle() &&
         std::none_of(ranks_.begin(), ranks_.end(), [&](const auto& rank) {
           return reads(rank->out) || reads(rank->err);
         });
}

void Job::say(absl::string_view text) {
  err_->write(absl::StrCat("distwrap: ", text, "\n"));
}

int Job::run() {
  while (!is_done()) uv_run(&loop_, UV_RUN_ONCE);
  return code_;
}

}  // namespace distwrap::cli
