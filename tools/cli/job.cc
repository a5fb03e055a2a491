#include "job.h"

#include "base/settings.h"
#include "distwrap/deadline.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::cli {
namespace {

// The signals that ask the job to end come first.
constexpr int kForwarded[] = {SIGINT,  SIGTERM, SIGHUP,
                              SIGQUIT, SIGUSR1, SIGUSR2};
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

}  // namespace

Job::Job(const LaunchOptions& options)
    : options_(options), job_id_(make_job_id()) {
  uv_loop_init(&loop_);
  uv_timer_init(&loop_, &timer_);
  uv_async_init(&loop_, &news_, [](uv_async_t* async) {
    static_cast<Job*>(async->data)->on_nodes();
  });
  timer_.data = news_.data = this;
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
  nodes_.reset();
  server_.reset();
  relay_.reset();
  close_sources();
  out_->close();
  err_->close();
  for (const auto& signal : signals_)
    uv_close(reinterpret_cast<uv_handle_t*>(signal.get()), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&timer_), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&news_), nullptr);
  uv_run(&loop_, UV_RUN_DEFAULT);
  uv_loop_close(&loop_);
}

absl::Status Job::start(const std::string& program) {
  auto directory = store::RunDirectory::make(base::Environment::of_process());
  if (!directory.ok()) return directory.status();
  directory_.emplace(*std::move(directory));
  take_signals();
  if (absl::Status status = open_store(); !status.ok()) return status;
  // A signal that asked the job to end came before its ranks.
  if (signalled_ != 0) return absl::OkStatus();
  stage_ = Stage::kRunning;
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
    if (asks_to_end(signal)) {
      signalled_ = signal;
      leaves_ = true;
    }
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
  if (ends.empty() || living() != 0) return;
  if (nodes_ != nullptr && code_ == 0) nodes_->tell_done();
  set_timer(kDrainTime);
}

void Job::on_end(const End& end) {
  const int code = end.signal != 0 ? 128 + end.signal : end.code;
  if (code == 0) return;
  if (nodes_ != nullptr && code_ == 0)
    nodes_->tell_failure(end.signal != 0
                             ? absl::StrCat("rank ", end.rank->number,
                                            " was killed by ",
                                            signal_name(end.signal))
                             : absl::StrCat("rank ", end.rank->number,
                                            " exited with code ", end.code));
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
    // By now the other nodes have had time to hear that this one leaves.
    leaves_ = told_leaving_;
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
bool Job::is_done() {
  const auto reads = [](const std::unique_ptr<Source>& source) {
    return source != nullptr && source->is_open();
  };
  return living() == 0 && out_->is_idle() && err_->is_idle() &&
         std::none_of(ranks_.begin(), ranks_.end(),
                      [&](const auto& rank) {
                        return reads(rank->out) || reads(rank->err);
                      }) &&
         nodes_have_ended();
}

void Job::say(absl::string_view text) {
  err_->write(absl::StrCat("distwrap: ", text, "\n"));
}

int Job::run() {
  while (!is_done()) uv_run(&loop_, UV_RUN_ONCE);
  return code_;
}

}  // namespace distwrap::cli
