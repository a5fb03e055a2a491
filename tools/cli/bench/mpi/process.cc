#include "bench/mpi/process.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace distwrap::bench::mpi {
namespace {

namespace fs = std::filesystem;

absl::Status failed(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

std::string found_in_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  for (absl::string_view folder :
       absl::StrSplit(path == nullptr ? "" : path, ':', absl::SkipEmpty())) {
    std::string file = absl::StrCat(folder, "/", program);
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

// This process's environment without the variables of an MPI launcher around
// it, because an MPI refuses to start inside another one. What an MPI leaves
// behind when it is killed, it leaves in `folder`.
std::vector<std::string> environment_for(const MpiKind& kind,
                                         const std::string& folder) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    bool theirs = false;
    for (const char* prefix : {"OMPI_", "PMIX_", "PMI_", "HYDRA", "MPI_",
                               "MPIR_", "DISTWRAP_", "TMPDIR="}) {
      theirs = theirs || absl::StartsWith(*entry, prefix);
    }
    if (!theirs) all.emplace_back(*entry);
  }
  if (geteuid() == 0) {
    all.emplace_back("OMPI_ALLOW_RUN_AS_ROOT=1");
    all.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
  }
  all.push_back(absl::StrCat("TMPDIR=", folder));
  all.insert(all.end(), kind.environment.begin(), kind.environment.end());
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  all.reserve(words.size() + 1);
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

// The job's own folder, which its launcher removes whatever becomes of the
// ranks; else the temporary folder.
std::string place_for_folder() {
  constexpr absl::string_view kUnix = "unix:";
  const char* const store = getenv("DISTWRAP_STORE");
  if (store != nullptr && absl::StartsWith(store, kUnix)) {
    const fs::path folder = fs::path(store + kUnix.size()).parent_path();
    std::error_code error;
    if (fs::is_directory(folder, error)) return folder;
  }
  std::error_code error;
  const fs::path place = fs::temp_directory_path(error);
  return error ? "/tmp" : place.string();
}

}  // namespace

std::string program_path(const MpiKind& kind) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path prefix = self.parent_path().parent_path();
  return (prefix / "libexec/distwrap" / kind.program).string();
}

std::string missing(const MpiKind& kind) {
  const std::string program = program_path(kind);
  if (access(program.c_str(), X_OK) != 0) {
    return absl::StrCat(program, " is missing: build distwrap with ",
                        kind.build_package,
                        " installed and -DDISTWRAP_BUILD_PEERS=ON");
  }
  if (found_in_path(kind.launcher).empty()) {
    return absl::StrCat(kind.launcher, " is not in PATH: install ",
                        kind.run_package);
  }
  return "";
}

absl::StatusOr<std::unique_ptr<MpiProcess>> MpiProcess::start(
    const MpiKind& kind, SideChannel& side, absl::Duration timeout) {
  std::unique_ptr<MpiProcess> made(new MpiProcess(kind, timeout));
  absl::Status status;
  if (side.rank() == 0) {
    std::string folder = absl::StrCat(place_for_folder(), "/mpi_XXXXXX");
    if (mkdtemp(folder.data()) == nullptr) {
      status = failed(absl::StrCat("cannot make a folder ", folder));
    } else {
      made->folder_ = folder;
      made->owns_folder_ = true;
    }
  }
  const auto folders = side.exchange(made->folder_);
  if (!folders.ok()) return folders.status();
  made->folder_ = folders->front();
  if (status.ok() && made->folder_.empty()) {
    status = absl::UnavailableError("rank 0 could make no folder");
  }
  if (status.ok()) status = made->listen_here(side.rank());
  status = side.agree(status);
  if (!status.ok()) return status;
  if (side.rank() == 0) status = made->launch(side.ranks());
  if (status.ok()) status = made->accept_one();
  if (status.ok()) status = made->greet(side.rank(), side.ranks());
  // Tells a rank that still waits about the failure at once.
  if (!status.ok()) std::ofstream(made->folder_ + "/failed") << "1";
  status = side.agree(status);
  if (!status.ok()) return status;
  return made;
}

MpiProcess::~MpiProcess() {
  if (socket_ >= 0) close(socket_);
  if (listener_ >= 0) close(listener_);
  // The processes end when their sockets close. A launcher that does not end is
  // made to, and it takes the processes with it.
  for (const auto& [signal, patience] :
       {std::pair{0, 5}, std::pair{SIGTERM, 3}, std::pair{SIGKILL, 3}}) {
    if (launcher_ > 0 && signal != 0) kill(launcher_, signal);
    const Deadline deadline = Deadline::after(absl::Seconds(patience));
    while (launcher_ > 0 && !launcher_ended() && !deadline.passed()) {
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  std::error_code error;
  if (owns_folder_) fs::remove_all(folder_, error);
}

bool MpiProcess::launcher_ended() {
  if (launcher_ > 0 && waitpid(launcher_, nullptr, WNOHANG) != 0) {
    launcher_ = -1;
    return true;
  }
  return false;
}

absl::Status MpiProcess::listen_here(int rank) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = absl::StrCat(folder_, "/", rank, ".sock");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener_ < 0 ||
      bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) !=
          0 ||
      listen(listener_, 1) != 0) {
    return failed(absl::StrCat("cannot listen at ", path));
  }
  return absl::OkStatus();
}

absl::Status MpiProcess::launch(int ranks) {
  std::vector<std::string> words = {found_in_path(kind_.launcher)};
  words.insert(words.end(), kind_.arguments.begin(), kind_.arguments.end());
  for (const std::string& word :
       {std::string("-n"), absl::StrCat(ranks), program_path(kind_), folder_}) {
    words.push_back(word);
  }
  std::vector<std::string> environment = environment_for(kind_, folder_);
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(environment);
  const std::string log = folder_ + "/log";
  const pid_t parent = getpid();
  launcher_ = fork();
  if (launcher_ < 0) return failed("cannot fork");
  if (launcher_ > 0) return absl::OkStatus();
  // Between fork and exec of a program with threads, only async-signal-safe
  // calls.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  signal(SIGPIPE, SIG_DFL);
  const int null = open("/dev/null", O_RDONLY);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(null, 0);
  dup2(out, 1);
  dup2(out, 2);
  execve(argv[0], argv.data(), envp.data());
  _exit(127);
}

absl::Status MpiProcess::accept_one() {
  const Deadline deadline = Deadline::after(timeout_);
  while (!deadline.passed()) {
    pollfd wait{listener_, POLLIN, 0};
    if (poll(&wait, 1, std::min(50, deadline.remaining_ms())) > 0) {
      socket_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket_ >= 0) return absl::OkStatus();
    }
    if (launcher_ended()) {
      return absl::UnavailableError(
          absl::StrCat(kind_.launcher, " ended: ", last_output()));
    }
    if (access((folder_ + "/failed").c_str(), F_OK) == 0) {
      return absl::UnavailableError("another rank could not start its process");
    }
  }
  return absl::DeadlineExceededError(
      absl::StrCat(kind_.launcher, " started nothing in ",
                   absl::FormatDuration(timeout_), ": ", last_output()));
}

absl::Status MpiProcess::greet(int rank, int ranks) {
  Hello hello;
  absl::Status status = move(false, reinterpret_cast<char*>(&hello),
                             sizeof hello, Deadline::after(timeout_));
  if (!status.ok()) return status;
  if (hello.rank != rank || hello.ranks != ranks) {
    return absl::UnavailableError(
        absl::StrCat(kind_.launcher, " made rank ", hello.rank, " of ",
                     hello.ranks, " where ", rank, " of ", ranks, " was due"));
  }
  hello.library[sizeof hello.library - 1] = '\0';
  library_ = hello.library;
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) {
    return failed("cannot tell its cores");
  }
  Request pin;
  pin.ask = Ask::kPin;
  return ask(pin, {Piece(reinterpret_cast<const char*>(&cores), sizeof cores)})
      .status();
}

absl::Status MpiProcess::move(bool out, char* data, size_t bytes,
                              Deadline deadline) {
  while (bytes > 0) {
    pollfd wait{socket_, static_cast<short>(out ? POLLOUT : POLLIN), 0};
    const int ready = poll(&wait, 1, deadline.remaining_ms());
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(kind_.name, " did not answer in ",
                       absl::FormatDuration(timeout_), "; --timeout is that"));
    }
    const ssize_t moved =
        out ? send(socket_, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
            : recv(socket_, data, bytes, MSG_DONTWAIT);
    if (moved < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (moved <= 0) {
      return absl::UnavailableError(
          absl::StrCat("its process ended: ", last_output()));
    }
    data += moved;
    bytes -= static_cast<size_t>(moved);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> MpiProcess::ask(const Request& request,
                                            const std::vector<Piece>& payload) {
  const Deadline deadline = Deadline::after(timeout_);
  Request head = request;
  absl::Status status =
      move(true, reinterpret_cast<char*>(&head), sizeof head, deadline);
  for (const Piece piece : payload) {
    if (!status.ok()) break;
    status =
        move(true, const_cast<char*>(piece.data()), piece.size(), deadline);
  }
  Reply reply;
  if (status.ok()) {
    status =
        move(false, reinterpret_cast<char*>(&reply), sizeof reply, deadline);
  }
  if (!status.ok()) return status;
  std::string text(static_cast<size_t>(reply.payload), '\0');
  status = move(false, text.data(), text.size(), deadline);
  if (!status.ok()) return status;
  if (reply.answer == Answer::kNone) {
    return absl::UnimplementedError("no such operation");
  }
  if (reply.answer == Answer::kFailed) return absl::InternalError(text);
  return text;
}

std::string MpiProcess::last_output() const {
  std::ifstream in(folder_ + "/log");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> lines =
      absl::StrSplit(text, '\n', absl::SkipEmpty());
  if (lines.size() > 5) lines.erase(lines.begin(), lines.end() - 5);
  return lines.empty() ? "it said nothing" : absl::StrJoin(lines, " | ");
}

}  // namespace distwrap::bench::mpi
