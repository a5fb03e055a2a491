// Programs that make the exchange of experts of `distwrap bench moe` with other
// libraries: torch.distributed over Gloo, and MPIs.
//
// Threads: values.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MPI_MOE_OTHERS_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MPI_MOE_OTHERS_H_

#include "bench/moe/layer.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

namespace distwrap::bench {

// Writes the ids (T,K) of all ranks in the form of read_experts.
absl::Status write_experts(const std::string& path, const MoeLayerSpec& spec,
                           int ranks);

// The words that start a library's ranks, to which the file to write is added;
// an error says why the library cannot run here. `one`: they are one process
// that starts the ranks by itself.
struct OtherProgram {
  std::vector<std::string> words;
  bool one = false;
};
absl::StatusOr<OtherProgram> other_program(const std::string& name,
                                           const std::string& python,
                                           const std::string& experts_file,
                                           const MoeLayerSpec& spec, int ranks,
                                           int rounds);

absl::StatusOr<OtherCost> read_other(const std::string& name,
                                     absl::string_view text);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MPI_MOE_OTHERS_H_
