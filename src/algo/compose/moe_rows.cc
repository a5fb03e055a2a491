// The extension distwrap.moe over a backend that does not know it: gathers the
// rows for each rank, exchanges them as blocks, and scatters those that came,
// or adds them up.
#include "algo/compose/comm.h"
#include "algo/compose/execution.h"
#include "algo/compose/scratch.h"

#include <cstring>

namespace distwrap::algo::compose {
namespace {

void copy_row(char* to, const char* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

}  // namespace

int32_t Execution::move_rows(const dw_op& op) {
  dw_sdk::MoeRows& rows = rows_;
  rows.use(dw_sdk::moe_sum_api_of(comm_.backend().host()));
  if (int32_t code = rows.read(op, rank_, size_, &error_)) return failed(code);
  const dw_ext_moe& lists = rows.lists();
  const auto n = static_cast<size_t>(size_);
  counts_.resize(4 * n);
  dw_op part = part_of(op, DW_OP_ALL_TO_ALL);
  part.flags = DW_FLAG_PER_RANK;
  // This rank's rows for itself are copied here. Blocks of rows that lie in
  // order are sent from there, and received there.
  const auto lay_out = [&](const dw_buf& given, const int64_t* first,
                           bool in_order, size_t at, dw_buf* out) {
    int64_t* const counts = counts_.data() + 2 * at * n;
    int64_t* const displs = counts + n;
    out->dtype = given.dtype;
    out->counts = counts;
    out->displs = displs;
    for (int r = 0; r < size_; ++r) {
      counts[r] = r == rank_ ? 0 : given.counts[r];
      displs[r] = in_order ? first[r] * static_cast<int64_t>(rows.row_bytes())
                           : out->count;
      out->count += counts[r];
    }
    return in_order ? uint64_t{0} : static_cast<uint64_t>(out->count);
  };
  char* const in_order = const_cast<char*>(rows.given_in_order());
  char* const out_in_order = rows.taken_in_order();
  const bool adds = rows.sums().adds();
  const uint64_t gathered =
      lay_out(op.in, lists.give_first, in_order != nullptr, 0, &part.in);
  // Rows that are added up lie by their numbers.
  uint64_t scattered = lay_out(op.out, lists.get_first,
                               out_in_order != nullptr || adds, 1, &part.out);
  if (adds)
    scattered = rows.numbers(size_, [&](int r) { return op.out.counts[r]; }) *
                rows.row_bytes();
  const bool has_scratch =
      gathered + scattered <= lists.scratch_bytes && lists.scratch != nullptr;
  const Scratch own(scratch_, has_scratch ? 0 : gathered + scattered);
  if (!own.ok()) return no_memory();
  char* const scratch =
      has_scratch ? static_cast<char*>(lists.scratch) : own.data();
  part.in.data = in_order != nullptr ? in_order : scratch;
  part.out.data = out_in_order != nullptr ? out_in_order : scratch + gathered;

  for (int r = 0; r < size_ && gathered != 0; ++r)
    rows.gather(r, 0, static_cast<uint64_t>(part.in.counts[r]),
                scratch + part.in.displs[r], copy_row);
  rows.keep(rank_, 0, static_cast<uint64_t>(op.in.counts[rank_]), copy_row);
  if (int32_t code = perform(part)) return code;
  if (adds) {
    rows.sums().add_all(scratch + gathered, rows.row_bytes());
    return DW_OK;
  }
  for (int r = 0; r < size_ && scattered != 0; ++r)
    rows.scatter(r, 0, static_cast<uint64_t>(part.out.counts[r]),
                 scratch + gathered + part.out.displs[r], copy_row);
  return DW_OK;
}

}  // namespace distwrap::algo::compose
