#include "bench/mpi/moe_others.h"

#include "bench/mpi/process.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <fstream>
#include <iterator>

namespace distwrap::bench {
namespace {

// The program's arguments: the file of experts, then tokens, hidden, experts,
// topk, rounds and element type, then the file to write. Rows of bf16 travel as
// bytes: Gloo takes no 16-bit integers, and bf16 not in every version.
const char* const kTorchProgram = R"py(
import datetime, os, statistics, sys, time
import torch, torch.distributed as dist
source, path = sys.argv[1], sys.argv[8]
wide = sys.argv[7] == "f32"
tokens, hidden, experts, topk, rounds = map(int, sys.argv[2:7])
rank, size = int(os.environ["DISTWRAP_RANK"]), int(os.environ["DISTWRAP_WORLD_SIZE"])
dist.init_process_group("gloo", init_method="file://" + path + "-meet", rank=rank,
                        world_size=size, timeout=datetime.timedelta(seconds=120))
with open(source) as lines:
    all_ids = torch.tensor([[int(one) for one in line.split()] for line in lines])
ids = all_ids[rank * tokens:(rank + 1) * tokens].flatten()
order = torch.argsort(ids, stable=True)
order = order[ids[order] >= 0]
token = order // topk
sends = torch.bincount(ids[order] // (experts // size), minlength=size)
receives = torch.empty_like(sends)
dist.all_to_all_single(receives, sends)
sends, receives = sends.tolist(), receives.tolist()
x = torch.ones(tokens, hidden, dtype=torch.float32 if wide else torch.bfloat16)
rows = x.new_empty(sum(receives), hidden)
back = x.new_empty(len(order), hidden)
def moved(tensor):
    return tensor if wide else tensor.view(torch.uint8)
def there():
    dist.all_to_all_single(moved(rows), moved(x[token]), receives, sends)
def combine():
    dist.all_to_all_single(moved(back), moved(rows), sends, receives)
    return torch.zeros_like(x).index_add_(0, token, back)
def median(step):
    times = []
    for round in range(rounds + 2):
        dist.barrier()
        start = time.perf_counter()
        step()
        if round >= 2: times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)
result = median(there), median(combine)
if rank == 0:
    with open(path, "w") as out:
        out.write("%f %f\n" % result)
dist.destroy_process_group()
)py";

std::vector<std::string> numbers(const MoeLayerSpec& spec, int rounds) {
  return {absl::StrCat(spec.router.tokens),
          absl::StrCat(spec.hidden),
          absl::StrCat(spec.router.experts),
          absl::StrCat(spec.router.topk),
          absl::StrCat(rounds),
          spec.dtype == DType::kF32 ? "f32" : "bf16"};
}

// How an MPI starts processes.
const mpi::MpiKind* mpi_kind(const std::string& name) {
  static const mpi::MpiKind kKinds[] = {
      {.name = "openmpi",
       .launcher = "mpirun.openmpi",
       .arguments = {"--oversubscribe", "--bind-to", "none"},
       .program = "mpi_moe_openmpi",
       .build_package = "libopenmpi-dev",
       .run_package = "openmpi-bin"},
      {.name = "mpich",
       .launcher = "mpiexec.mpich",
       .arguments = {"-bind-to", "none"},
       .program = "mpi_moe_mpich",
       .build_package = "libmpich-dev",
       .run_package = "mpich"}};
  for (const mpi::MpiKind& kind : kKinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

}  // namespace

absl::Status write_experts(const std::string& path, const MoeLayerSpec& spec,
                           int ranks) {
  std::ofstream file(path);
  for (int r = 0; r < ranks; ++r) {
    int64_t slot = 0;
    for (const int64_t id : draw_experts(spec.router, r))
      file << id << (++slot % spec.router.topk == 0 ? "\n" : " ");
  }
  if (file.flush()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write '", path, "'"));
}

absl::StatusOr<OtherProgram> other_program(const std::string& name,
                                           const std::string& python,
                                           const std::string& experts_file,
                                           const MoeLayerSpec& spec, int ranks,
                                           int rounds) {
  OtherProgram program;
  std::vector<std::string>& words = program.words;
  const std::vector<std::string> tail = numbers(spec, rounds);
  if (name == "torch") {
    words = {python, "-c", kTorchProgram, experts_file};
  } else if (const mpi::MpiKind* const kind = mpi_kind(name)) {
    if (const std::string why = mpi::missing(*kind); !why.empty())
      return absl::UnavailableError(absl::StrCat(name, ": ", why));
    program.one = true;
    words = {"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1",
             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", kind->launcher};
    words.insert(words.end(), kind->arguments.begin(), kind->arguments.end());
    for (const std::string& word : {std::string("-n"), absl::StrCat(ranks),
                                    mpi::program_path(*kind), experts_file})
      words.push_back(word);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' is not torch, openmpi or mpich"));
  }
  words.insert(words.end(), tail.begin(), tail.end());
  return program;
}

absl::StatusOr<OtherCost> read_other(const std::string& name,
                                     absl::string_view text) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  OtherCost cost{.name = name};
  if (words.size() == 2 && absl::SimpleAtod(words[0], &cost.dispatch_us) &&
      absl::SimpleAtod(words[1], &cost.combine_us))
    return cost;
  return absl::DataLossError(absl::StrCat(name, " reported no times"));
}

}  // namespace distwrap::bench
