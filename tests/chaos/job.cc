#include "chaos/job.h"

#include "base/settings.h"
#include "store/job_key.h"
#include "store/job_name.h"
#include "store/network_address.h"
#include "store/store_place.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <system_error>
#include <time.h>
#include <unistd.h>

extern char** environ;

namespace distwrap::chaos {
namespace {

void sleep_for(absl::Duration duration) {
  const timespec span = absl::ToTimespec(duration);
  nanosleep(&span, nullptr);
}

// This process's environment, without variables that would give the ranks other
// facts.
std::vector<std::string> environment(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  const auto is_given = [&more](const std::string& variable) {
    const std::string name = variable.substr(0, variable.find('=') + 1);
    return std::any_of(more.begin(), more.end(), [&](const std::string& one) {
      return one.rfind(name, 0) == 0;
    });
  };
  for (char** one = environ; *one != nullptr; ++one)
    if (std::string(*one).rfind("DISTWRAP_", 0) != 0 && !is_given(*one))
      all.emplace_back(*one);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

constexpr char kJobId[] = "chaos";
// Where ranks that are agents meet, and the job's key.
std::string store_between_hosts() {
  return absl::StrCat(hosts_test::Hosts::address(0), ":", Job::kStorePort);
}
const std::string& key_digits() {
  static const std::string digits(64, 'c');
  return digits;
}

}  // namespace

std::unique_ptr<store::ServerThread> Job::serve(const Setting& setting) {
  const std::string path = directory_.path() + "/store";
  if (hosts_ == nullptr) return *store::ServerThread::start(path);
  using hosts_test::Hosts;
  const store::LaunchInfo started{.launcher = "own", .job_id = kJobId};
  const store::TlsPsk psk{store::job_identity(store::job_name(started)),
                          store::JobKey::read(key_digits())->control()};
  for (int host = 1; host < hosts_->number() && !setting.rank_agents; ++host)
    agents_.push_back(std::make_unique<store::AgentThread>(
        absl::StrCat(path, host),
        store::resolve({Hosts::address(0), kStorePort})->front(), psk,
        [this, host](const store::AgentThread::Body& body) {
          const Hosts::Visit visit(*hosts_, host);
          body();
        }));
  const Hosts::Visit visit(*hosts_, 0);
  return *store::ServerThread::start(
      path, {},
      store::NetworkService{
          .host = Hosts::address(0), .ports = {kStorePort}, .psk = psk});
}

std::string Job::store_for(int host) const {
  if (host == 0) return server_->address();
  if (agents_.empty()) return absl::StrCat("tls://", store_between_hosts());
  return agents_[static_cast<size_t>(host) - 1]->address();
}

int Job::agent_of(const Setting& setting, int host) const {
  for (int rank = 0; rank < size(); ++rank) {
    if (host_of(setting, rank) != host || end_of(rank) >= 0) continue;
    std::error_code gone;
    for (const auto& task : std::filesystem::directory_iterator(
             absl::StrCat("/proc/", pid(rank), "/task"), gone)) {
      std::ifstream file(task.path() / "comm");
      std::string name;
      if (std::getline(file, name) && name == "dw-agent") return rank;
    }
  }
  return -1;
}

Job::Job(const Setting& setting, absl::Duration patience,
         const std::string& preload, const hosts_test::Hosts* hosts)
    : directory_(*store::RunDirectory::make(base::Environment::of_process())),
      hosts_(hosts),
      server_(serve(setting)),
      deadline_(Deadline::after(patience)),
      ranks_(static_cast<size_t>(setting.ranks)) {
  for (int rank = 0; rank < setting.ranks; ++rank)
    start(setting, rank, preload);
}

Job::~Job() {
  ledger().over.store(true);
  // The ranks and the processes that they have left behind.
  if (process_group_ > 0) kill(-process_group_, SIGKILL);
  for (const Rank& rank : ranks_) {
    if (rank.end < 0) waitpid(rank.pid, nullptr, 0);
    close(rank.output);
  }
  while (waitpid(-process_group_, nullptr, 0) > 0) {
  }
}

void Job::start(const Setting& setting, int number,
                const std::string& preload) {
  Rank& rank = ranks_[static_cast<size_t>(number)];
  rank.output = memfd_create("output", MFD_CLOEXEC);
  const int host = host_of(setting, number);
  std::vector<std::string> argv = {
      std::filesystem::read_symlink("/proc/self/exe"),
      "--case",
      setting.name,
      "--backend",
      setting.backend,
      "--ranks",
      absl::StrCat(setting.ranks),
      "--hosts",
      absl::StrCat(setting.hosts),
      "--seed",
      absl::StrCat(setting.seed),
      "--rank",
      absl::StrCat(number),
      "--ledger",
      absl::StrCat(memory_.fd())};
  std::vector<std::string> env = {
      absl::StrCat("DISTWRAP_RANK=", number),
      absl::StrCat("DISTWRAP_WORLD_SIZE=", setting.ranks),
      absl::StrCat("DISTWRAP_STORE=", store_for(host)),
      // The recordings of thousands of broken groups would not be read.
      "DISTWRAP_RECORDER=0"};
  if (setting.rank_agents) {
    argv.emplace_back("--rank-agents");
    env.push_back(absl::StrCat("DISTWRAP_JOB_KEY=", key_digits()));
    env.push_back(absl::StrCat("DISTWRAP_JOB_ID=", kJobId));
  }
  if (!preload.empty()) {
    // In front of what is preloaded already, such as the guard's door.
    const char* const others = getenv("LD_PRELOAD");
    env.push_back(absl::StrCat("LD_PRELOAD=", preload,
                               others == nullptr ? "" : ":",
                               others == nullptr ? "" : others));
    env.push_back(absl::StrCat("CHAOS_CLOCK=", memory_.fd()));
  }
  if (hosts_ != nullptr) {
    argv = hosts_->words(host, argv);
    const std::string folder = absl::StrCat(directory_.path(), "/", host);
    mkdir(folder.c_str(), 0700);
    env.push_back(absl::StrCat("DISTWRAP_RUN_DIR=", folder));
    env.push_back(
        absl::StrCat("DISTWRAP_ADDRESS=", hosts_test::Hosts::address(host)));
  }
  env = environment(env);
  const std::vector<char*> arguments = pointers(argv),
                           variables = pointers(env);
  const pid_t group = process_group_;
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, group);
    dup2(rank.output, 1);
    dup2(rank.output, 2);
    execve(arguments[0], arguments.data(), variables.data());
    _exit(99);
  }
  if (pid < 0) {
    std::perror("fork");
    std::exit(2);
  }
  // Parent and child call it, whichever runs first.
  setpgid(pid, group);
  if (group == 0) process_group_ = pid;
  rank.pid = pid;
}

void Job::signal(int rank, int number) const {
  if (at(rank).end < 0) kill(at(rank).pid, number);
}

bool Job::all_ready() {
  for (int rank = 0; rank < size(); ++rank)
    if (!page(rank).ready.load()) return false;
  return true;
}

bool Job::reap() {
  bool any = false;
  for (Rank& rank : ranks_) {
    if (rank.end >= 0) continue;
    int status = 0;
    if (waitpid(rank.pid, &status, WNOHANG) == rank.pid)
      rank.end =
          WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    else
      any = true;
  }
  return any;
}

bool Job::wait_until(const std::function<bool()>& condition) {
  while (!condition()) {
    if (!reap()) return condition();
    if (deadline_.passed()) return false;
    sleep_for(absl::Microseconds(500));
  }
  return true;
}

bool Job::wait_for_all() {
  while (reap()) {
    if (deadline_.passed()) return false;
    sleep_for(absl::Milliseconds(1));
  }
  return true;
}

std::string Job::said(int rank) const {
  std::string text;
  char part[4096];
  for (off_t at_byte = 0;;) {
    const ssize_t n = pread(at(rank).output, part, sizeof part, at_byte);
    if (n <= 0) return text;
    text.append(part, static_cast<size_t>(n));
    at_byte += n;
  }
}

std::string Job::who_hangs() {
  std::string text;
  for (int rank = 0; rank < size(); ++rank) {
    if (end_of(rank) >= 0) continue;
    const RankPage& page = this->page(rank);
    absl::StrAppend(&text, text.empty() ? "" : ", ", "rank ", rank,
                    " (process ", pid(rank), ", round ", page.rounds.load(),
                    page.news[0].is_there() ? ", told" : "",
                    page.finished.load() ? ", at its end" : "",
                    page.ready.load() ? "" : ", not ready", ")");
  }
  return text;
}

}  // namespace distwrap::chaos
