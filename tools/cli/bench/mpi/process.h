// Starts the processes of an MPI and talks to the one that belongs to this
// rank.
//
// Threads: used by one. Ownership: ends everything that it started; neither
// processes nor files remain.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MPI_PROCESS_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MPI_PROCESS_H_

#include "bench/mpi/wire.h"
#include "bench/side_channel.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <memory>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace distwrap::bench::mpi {

// One MPI with its options.
struct MpiKind {
  std::string name = {};      // "openmpi"
  std::string launcher = {};  // "mpirun.openmpi"; the number of ranks follows
  std::vector<std::string> arguments = {};
  std::vector<std::string> environment = {};  // "NAME=value"
  std::string program = {};                   // "mpi_peer_openmpi"
  // Debian's packages with the compiler and with the launcher.
  std::string build_package = {}, run_package = {};
};

// The path of `kind`'s program, in the build tree or in the installation.
std::string program_path(const MpiKind& kind);

// The reason why it cannot be started here; "" when it can.
std::string missing(const MpiKind& kind);

class MpiProcess {
 public:
  // Collective.
  static absl::StatusOr<std::unique_ptr<MpiProcess>> start(
      const MpiKind& kind, SideChannel& side, absl::Duration timeout);
  ~MpiProcess();
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  using Piece = absl::Span<const char>;
  // Sends the request and its payload, waits for the reply and returns the
  // reply's payload. kUnimplemented for Answer::kNone.
  absl::StatusOr<std::string> ask(const Request& request,
                                  const std::vector<Piece>& payload = {});

  const std::string& library() const { return library_; }

 private:
  MpiProcess(MpiKind kind, absl::Duration timeout)
      : kind_(std::move(kind)), timeout_(timeout) {}
  absl::Status listen_here(int rank);
  absl::Status launch(int ranks);
  absl::Status accept_one();
  absl::Status greet(int rank, int ranks);
  // Transfers all bytes by the deadline. `out` chooses the direction.
  absl::Status move(bool out, char* data, size_t bytes, Deadline deadline);
  // The end of the launcher's output.
  std::string last_output() const;
  bool launcher_ended();

  MpiKind kind_;
  absl::Duration timeout_;
  std::string folder_ = {}, library_ = {};
  bool owns_folder_ = false;
  int listener_ = -1, socket_ = -1;
  pid_t launcher_ = -1;  // on rank 0
};

}  // namespace distwrap::bench::mpi

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MPI_PROCESS_H_
