#include "bench/groups/making.h"

#include "bench/statistics.h"
#include "distwrap/distwrap.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <fstream>
#include <functional>
#include <numeric>
#include <vector>

namespace distwrap::bench {
namespace {

// Untimed rounds; the first group opens connections.
constexpr int kWarmUp = 3;

double since_us(int64_t start) {
  return static_cast<double>(Deadline::now_ns() - start) / 1e3;
}

struct Times {
  std::vector<double> made, ended;
};

// Makes groups of all ranks, one after the other, until rank 0's time is over.
absl::Status run(double seconds,
                 const std::function<absl::StatusOr<Group>()>& make,
                 Times* times) {
  Deadline end;
  int32_t more = 1;
  for (int round = 0; more != 0; ++round) {
    if (round == kWarmUp) end = Deadline::after(absl::Seconds(seconds));
    if (absl::Status status = barrier().status(); !status.ok()) return status;
    int64_t start = Deadline::now_ns();
    const absl::StatusOr<Group> group = make();
    const double made = since_us(start);
    if (!group.ok()) return group.status();
    if (absl::Status status = barrier().status(); !status.ok()) return status;
    start = Deadline::now_ns();
    if (absl::Status status = destroy_process_group(*group); !status.ok())
      return status;
    if (round >= kWarmUp) {
      times->made.push_back(made);
      times->ended.push_back(since_us(start));
    }
    more = end.passed() ? 0 : 1;
    if (absl::Status status =
            broadcast(TensorView(&more, 1), Peer::group(0)).status();
        !status.ok())
      return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status measure_making(const std::string& backend, double seconds,
                            const std::string& path) {
  const absl::StatusOr<Session> session =
      init_process_group({.backend = backend});
  if (!session.ok()) return session.status();
  SplitOptions lists{.split_ranks = {{}}};
  lists.split_ranks[0].resize(static_cast<size_t>(get_world_size()));
  std::iota(lists.split_ranks[0].begin(), lists.split_ranks[0].end(), 0);
  Times split, made;
  absl::Status status = run(
      seconds / 2, [&] { return split_group(lists); }, &split);
  if (status.ok())
    status = run(
        seconds / 2, [] { return new_group(); }, &made);
  if (!status.ok()) return status;
  if (get_rank() == 0) {
    MakingRow row;
    row.rounds = static_cast<int>(split.made.size() + made.made.size());
    row.split_us = median(split.made);
    row.new_us = median(made.made);
    row.destroy_us = median(split.ended);
    std::ofstream(path) << write_times(row);
  }
  return destroy_process_group();
}

const char* const kTorchProgram = R"py(
import datetime, os, statistics, sys, time
import torch, torch.distributed as dist
seconds, path = float(sys.argv[1]), sys.argv[2]
rank, size = int(os.environ["DISTWRAP_RANK"]), int(os.environ["DISTWRAP_WORLD_SIZE"])
dist.init_process_group("gloo", init_method="file://" + path + "-meet", rank=rank,
                        world_size=size, timeout=datetime.timedelta(seconds=60))
def run(make):
    made, ended, round, end, more = [], [], 0, None, torch.ones(1)
    while more.item():
        if round == 3: end = time.monotonic() + seconds / 2
        dist.barrier()
        start = time.perf_counter()
        group = make()
        middle = time.perf_counter()
        dist.barrier()
        last = time.perf_counter()
        dist.destroy_process_group(group)
        if round >= 3:
            made.append((middle - start) * 1e6)
            ended.append((time.perf_counter() - last) * 1e6)
        round += 1
        more[0] = end is None or time.monotonic() < end
        dist.broadcast(more, 0)
    return made, ended
made, ended = run(lambda: dist.new_group(list(range(size))))
try:
    split, _ = run(lambda: dist.split_group(split_ranks=[list(range(size))]))
except Exception:  # gloo cannot split, or this torch has no such call
    split = []
if rank == 0:
    with open(path, "w") as out:
        out.write("%f %f %f %d\n" % (
            statistics.median(split) if split else -1, statistics.median(made),
            statistics.median(ended), len(split) + len(made)))
dist.destroy_process_group()
)py";

std::string write_times(const MakingRow& row) {
  return absl::StrCat(row.split_us, " ", row.new_us, " ", row.destroy_us, " ",
                      row.rounds, "\n");
}

absl::StatusOr<MakingRow> read_times(absl::string_view text) {
  const std::vector<std::string> words =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  MakingRow row;
  if (words.size() == 4 && absl::SimpleAtod(words[0], &row.split_us) &&
      absl::SimpleAtod(words[1], &row.new_us) &&
      absl::SimpleAtod(words[2], &row.destroy_us) &&
      absl::SimpleAtoi(words[3], &row.rounds))
    return row;
  return absl::DataLossError("the ranks reported no times");
}

}  // namespace distwrap::bench
