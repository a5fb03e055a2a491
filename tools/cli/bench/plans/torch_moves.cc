#include "bench/plans/torch_moves.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

namespace distwrap::bench {
namespace {

// The program's arguments: the sizes, the number of rounds, and the file to
// write, a line for each move: from, to, bytes of the larger part, and
// microseconds of the same matrix as measure_moves has.
const char* const kProgram = R"py(
import datetime, math, os, statistics, sys, time
import torch, torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, init_device_mesh
sizes, rounds, path = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3]
rank, size = int(os.environ["DISTWRAP_RANK"]), int(os.environ["DISTWRAP_WORLD_SIZE"])
dist.init_process_group("gloo", init_method="file://" + path + "-meet", rank=rank,
                        world_size=size, timeout=datetime.timedelta(seconds=120))
torch.set_num_threads(1)
mesh = init_device_mesh("cpu", (size,))
moves = [("S(0)", Shard(0), "S(1)", Shard(1)), ("S(1)", Shard(1), "S(0)", Shard(0)),
         ("S(0)", Shard(0), "R", Replicate()), ("S(1)", Shard(1), "R", Replicate()),
         ("P(sum)", Partial(), "S(0)", Shard(0)), ("P(sum)", Partial(), "R", Replicate())]
def part(layout, block):
    side = block * size
    return {"S(0)": (block, side), "S(1)": (side, block)}.get(layout, (side, side))
lines = []
for text in sizes:
    block = max(1, math.floor(math.sqrt(int(text) / 4 / size) + 0.5))
    for source, before, target, after in moves:
        local = torch.ones(part(source, block))
        tensor = DTensor.from_local(local, mesh, [before], run_check=False)
        bytes = 4 * max(math.prod(part(one, block)) for one in (source, target))
        calls = min(max((8 << 20) // bytes, 2), 20)
        times = []
        for round in range(rounds + 2):
            dist.barrier()
            start = time.perf_counter()
            for call in range(calls):
                tensor.redistribute(mesh, [after]).to_local()
            if round >= 2: times.append((time.perf_counter() - start) * 1e6 / calls)
        lines.append("%s\t%s\t%d\t%f\n" % (source, target, bytes, statistics.median(times)))
if rank == 0:
    with open(path, "w") as out:
        out.writelines(lines)
dist.destroy_process_group()
)py";

}  // namespace

std::vector<std::string> torch_words(const std::string& python,
                                     absl::Span<const int64_t> sizes,
                                     int rounds) {
  return {python, "-c", kProgram, absl::StrJoin(sizes, ","),
          absl::StrCat(rounds)};
}

absl::Status add_torch(absl::string_view text, std::vector<MoveCost>* moves) {
  for (const absl::string_view line :
       absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, '\t');
    int64_t bytes = 0;
    double us = 0;
    if (words.size() != 4 || !absl::SimpleAtoi(words[2], &bytes) ||
        !absl::SimpleAtod(words[3], &us))
      return absl::DataLossError("PyTorch reported no times");
    for (MoveCost& one : *moves)
      if (one.from == words[0] && one.to == words[1] && one.bytes == bytes)
        one.torch_us = us;
  }
  return absl::OkStatus();
}

}  // namespace distwrap::bench
