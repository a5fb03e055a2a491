#include "job.h"

#include "base/error.h"
#include "base/settings.h"
#include "distwrap/deadline.h"
#include "store/several_hosts.h"
#include "store/store_place.h"

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

// The name of the job under which nodes ask for its key. Hosts may spell one
// address in several ways, so it has only the port.
std::string meeting_job(const store::HostPort& meeting) {
  return absl::StrCat("run-", meeting.port);
}

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

absl::Status Job::open_store() {
  const std::string path = directory_->path() + "/store";
  world_size_ = options_.ranks;
  if (options_.nodes == 1 || options_.node == 0) {
    auto server = store::Server::listen(&loop_, path);
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
  }
  if (options_.nodes == 1) return absl::OkStatus();
  if (absl::Status status = gather(); !status.ok()) return status;
  if (signalled_ != 0 || server_ != nullptr) return absl::OkStatus();
  const auto root = store::HostPort::parse(nodes_->joined()->value().root);
  const auto addresses = store::resolve(root.value_or(options_.meeting));
  if (!addresses.ok()) return addresses.status();
  auto relay =
      store::Relay::listen(&loop_, path, addresses->front(), meeting_psk_);
  if (!relay.ok()) return relay.status();
  relay_ = *std::move(relay);
  return absl::OkStatus();
}

// Runs the loop until all nodes have come, or a signal asks the job to end.
absl::Status Job::gather() {
  const base::Environment environment = base::Environment::of_process();
  const auto patience = environment.get_seconds(Setting::kInitTimeout);
  const auto silence = environment.get_seconds(Setting::kHeartbeat);
  if (!patience.ok()) return patience.status();
  if (!silence.ok()) return silence.status();
  const std::string meeting = options_.meeting.text();
  auto place = store::StorePlace::parse(absl::StrCat("tls://", meeting),
                                        meeting_job(options_.meeting));
  if (!place.ok()) return place.status();
  meeting_psk_ = place->psk();
  std::string root;
  if (server_ != nullptr) {
    if (absl::Status status =
            server_->listen_at({.host = options_.meeting.host,
                                .ports = {options_.meeting.port},
                                .psk = meeting_psk_});
        !status.ok())
      return status;
    root = server_->network_address();
    place = store::StorePlace::parse(
        absl::StrCat("unix:", directory_->path(), "/store"));
    if (!place.ok()) return place.status();
  }
  own_address_ = store::source_address(options_.meeting);
  nodes_ = std::make_unique<Nodes>(
      Nodes::Plan{options_.nodes, options_.node, *patience, *silence},
      [this] { uv_async_send(&news_); });
  if (absl::Status status =
          nodes_->join(*std::move(place), options_.ranks, job_id_, root);
      !status.ok())
    return status;
  while (!nodes_->joined().has_value() && signalled_ == 0)
    uv_run(&loop_, UV_RUN_ONCE);
  if (signalled_ != 0) {
    code_ = 128 + signalled_;
    return absl::OkStatus();
  }
  const absl::StatusOr<Nodes::Joined> joined = *nodes_->joined();
  if (!joined.ok()) return joined.status();
  first_rank_ = joined->first_rank;
  world_size_ = joined->world_size;
  job_id_ = joined->job_id;
  return absl::OkStatus();
}

// There is news of other nodes.
void Job::on_nodes() {
  if (nodes_ == nullptr || stage_ == Stage::kGathering) return;
  for (const std::string& failure : nodes_->take_failures()) {
    say(absl::StrCat(failure,
                     living() > 0 && stage_ == Stage::kRunning
                         ? absl::StrCat("; the ranks here are ended in ",
                                        absl::FormatDuration(options_.grace))
                         : ""));
    if (code_ == 0) code_ = 1;
    if (stage_ != Stage::kRunning) continue;
    stage_ = Stage::kGrace;
    set_timer(options_.grace);
  }
}

// Whether this node may leave: all nodes have ended, and node 0 also waits
// until the others have heard it, for a little.
bool Job::nodes_have_ended() {
  if (nodes_ == nullptr || leaves_ || stage_ == Stage::kGathering) return true;
  if (!nodes_->all_ended()) return false;
  if (!std::exchange(told_leaving_, true)) {
    nodes_->tell_leaving();
    set_timer(kTermTime);
  }
  return nodes_->may_leave();
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
