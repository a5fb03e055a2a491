// One MPI process of the benchmark. It connects to the distwrap rank with its
// own number and serves that rank's requests until the connection closes. Built
// once for each MPI.
//
//   mpirun -n 2 mpi_peer_openmpi FOLDER-OF-SOCKETS
#include "bench/mpi/calls.h"
#include "bench/mpi/wire.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <sched.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace distwrap::bench::mpi {
namespace {

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool read_all(int socket, void* to, size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = read(socket, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int socket, const void* from, size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = send(socket, at, bytes, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<size_t>(put);
  }
  return true;
}

class Server {
 public:
  Server(int socket, int rank, int ranks)
      : socket_(socket), rank_(rank), ranks_(ranks) {}

  // Serves until the rank closes the connection.
  void serve() {
    Request request;
    while (read_all(socket_, &request, sizeof request)) {
      if (!answer(request)) return;
    }
  }

 private:
  bool reply(Answer answer, const void* payload = nullptr, size_t bytes = 0) {
    Reply head;
    head.answer = answer;
    head.payload = static_cast<int64_t>(bytes);
    return write_all(socket_, &head, sizeof head) &&
           write_all(socket_, payload, bytes);
  }

  bool outcome(int code) {
    if (code == MPI_SUCCESS) return reply(Answer::kDone);
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    return reply(Answer::kFailed, text, static_cast<size_t>(length));
  }

  int repeat(const Prepared& prepared, int64_t times) {
    for (int64_t i = 0; i < times; ++i) {
      const int code = prepared.call();
      if (code != MPI_SUCCESS) return code;
    }
    return MPI_SUCCESS;
  }

  bool answer(const Request& request) {
    if (request.ask == Ask::kPin) {
      cpu_set_t cores;
      if (!read_all(socket_, &cores, sizeof cores)) return false;
      sched_setaffinity(0, sizeof cores, &cores);
      return reply(Answer::kDone);
    }
    if (request.ask == Ask::kPrepare) return prepare(request);
    const auto found = calls_.find(request.id);
    if (found == calls_.end()) {
      const std::string text = "no such call";
      return reply(Answer::kFailed, text.data(), text.size());
    }
    Prepared& call = found->second;
    switch (request.ask) {
      case Ask::kRepeat:
        return outcome(repeat(call, request.times));
      case Ask::kTimed:
        return timed(request, call);
      case Ask::kSpoil:
        call.spoil();
        return reply(Answer::kDone);
      case Ask::kFetch:
        return reply(Answer::kDone, call.result, call.out.bytes());
      default:
        calls_.erase(found);
        return reply(Answer::kDone);
    }
  }

  bool prepare(const Request& request) {
    const auto bytes = [&](int64_t count) {
      return static_cast<size_t>(count * request.width);
    };
    Prepared made(bytes(request.in_count), bytes(request.out_count));
    for (std::vector<int>* list : {&made.in_counts, &made.out_counts}) {
      std::vector<int64_t> wide(static_cast<size_t>(request.counts));
      if (!read_all(socket_, wide.data(), wide.size() * sizeof(int64_t))) {
        return false;
      }
      for (int64_t count : wide) list->push_back(static_cast<int>(count));
    }
    made.in_starts = starts_of(made.in_counts);
    made.out_starts = starts_of(made.out_counts);
    if (!read_all(socket_, made.in.data(), made.in.bytes())) return false;
    if (!read_all(socket_, made.unwritten.data(), made.unwritten.bytes())) {
      return false;
    }
    made.spoil();
    calls_.erase(request.id);
    const auto at = calls_.emplace(request.id, std::move(made)).first;
    at->second.result = at->second.out.data();
    at->second.call = bind(request, at->second, rank_, ranks_);
    if (at->second.call != nullptr) return reply(Answer::kDone);
    calls_.erase(at);
    return reply(Answer::kNone);
  }

  bool timed(const Request& request, const Prepared& call) {
    std::vector<int64_t> took(static_cast<size_t>(request.times));
    int64_t last = now_ns();
    while (last < request.start_at) last = now_ns();
    for (int64_t& ns : took) {
      const int code = repeat(call, request.batch);
      if (code != MPI_SUCCESS) return outcome(code);
      const int64_t now = now_ns();
      ns = now - last;
      last = now;
    }
    return reply(Answer::kDone, took.data(), took.size() * sizeof(int64_t));
  }

  int socket_;
  int rank_;
  int ranks_;
  std::map<int32_t, Prepared> calls_;
};

int connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return -1;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(made, reinterpret_cast<sockaddr*>(&address), sizeof address) ==
      0) {
    return made;
  }
  close(made);
  return -1;
}

int run(const char* folder) {
  Hello hello;
  MPI_Comm_rank(MPI_COMM_WORLD, &hello.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &hello.ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  char library[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(library, &length);
  std::snprintf(hello.library, sizeof hello.library, "%.*s",
                static_cast<int>(sizeof hello.library) - 1, library);
  const int socket = connect_to(std::string(folder) + "/" +
                                std::to_string(hello.rank) + ".sock");
  if (socket < 0 || !write_all(socket, &hello, sizeof hello)) {
    std::fprintf(stderr, "MPI rank %d cannot reach the benchmark in %s: %s\n",
                 hello.rank, folder, std::strerror(errno));
    return 1;
  }
  Server(socket, hello.rank, hello.ranks).serve();
  close(socket);
  return 0;
}

}  // namespace
}  // namespace distwrap::bench::mpi

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER; started by the benchmark\n",
                 argv[0]);
    return 2;
  }
  MPI_Init(&argc, &argv);
  const int code = distwrap::bench::mpi::run(argv[1]);
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  MPI_Finalize();
  return code;
}
