// Four ranks as a grid of two by two: a sum over each row, then each column.
#include <distwrap/distwrap.h>

#include <iostream>
#include <vector>

namespace dw = distwrap;

static absl::Status run() {
  if (absl::Status start = dw::init_process_group().status(); !start.ok())
    return start;
  // A rank's place in its list is its rank in the group.
  auto row =
      dw::split_group({.split_ranks = {{0, 1}, {2, 3}}, .group_desc = "row"});
  if (!row.ok()) return row.status();
  auto column =
      dw::split_group_by_color(dw::get_rank() % 2, 0, {.group_desc = "column"});
  if (!column.ok()) return column.status();

  std::vector<int> x = {dw::get_rank()};
  for (const dw::Group& group : {*row, *column}) {
    auto sum =
        dw::all_reduce(dw::TensorView(x), dw::ReduceOp::kSum, {.group = group});
    if (!sum.ok()) return sum.status();
  }
  std::cout << std::string(row->name()) + " " + std::to_string(row->rank()) +
                   ": " + std::to_string(x[0]) + "\n";
  return dw::destroy_process_group();
}

int main() {
  const absl::Status status = run();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
