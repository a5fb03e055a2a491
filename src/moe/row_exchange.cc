#include "moe/row_exchange.h"

#include "algo/reduce_kernels.h"

#include <cstring>

namespace distwrap::moe {
namespace {

void copy_row(char* to, const char* from, size_t bytes) {
  memcpy(to, from, bytes);
}

// Packs the parts that travel; returns the bytes of all.
int64_t pack(int rank, PartSizes* parts) {
  int64_t sum = 0;
  for (size_t r = 0; r < parts->counts.size(); ++r) {
    if (r == static_cast<size_t>(rank)) parts->counts[r] = 0;
    parts->displs[r] = sum;
    sum += parts->counts[r];
  }
  return sum;
}

}  // namespace

int64_t RowExchange::own_bytes(int rank) const {
  const auto own = static_cast<size_t>(rank);
  int64_t bytes = 0;
  for (const dw_moe_channel& channel : channels)
    bytes += static_cast<int64_t>(channel.bytes);
  return bytes * ((*give_first_)[own + 1] - (*give_first_)[own]);
}

void RowExchange::begin(const std::vector<int64_t>& give_first,
                        const std::vector<int64_t>& get_first) {
  give_first_ = &give_first;
  get_first_ = &get_first;
  give = nullptr;
  place_first = nullptr;
  place = nullptr;
  channels.clear();
  with_own = true;
  by_messages = false;
  sums = {};
}

absl::StatusOr<Work> RowExchange::start(const Exchange& exchange,
                                        Bytes* scratch, int64_t tag,
                                        bool async) {
  int64_t row_bytes = 0;
  for (const dw_moe_channel& channel : channels)
    row_bytes += static_cast<int64_t>(channel.bytes);
  in_.from_rows(*give_first_, row_bytes);
  out_.from_rows(*get_first_, row_bytes);
  const int64_t sent = pack(exchange.rank(), &in_),
                received = pack(exchange.rank(), &out_);
  const bool messages = by_messages_in(exchange);
  const bool alone = channels.size() == 1 && !messages;
  const int64_t gathered =
      alone && give == nullptr && sums.given.first == nullptr ? 0 : sent;
  const int64_t scattered = alone && place == nullptr &&
                                    place_first == nullptr &&
                                    sums.results.first == nullptr
                                ? 0
                                : received;
  sums.head = {sizeof sums, DW_EXT_REQUIRED, dw_sdk::kMoeSumId, nullptr};
  lists_ = {.head = {sizeof(dw_ext_moe), DW_EXT_REQUIRED, dw_sdk::kMoeId,
                     has_sums() ? &sums.head : nullptr},
            .channels = channels.data(),
            .n_channels = channels.size(),
            .give_first = give_first_->data(),
            .give = give,
            .get_first = get_first_->data(),
            .place_first = place_first,
            .place = place,
            .scratch = scratch->grow(gathered + scattered),
            .scratch_bytes = static_cast<uint64_t>(gathered + scattered)};
  if (!messages) {
    if (with_own) {
      const auto own = static_cast<size_t>(exchange.rank());
      in_.counts[own] = out_.counts[own] = own_bytes(exchange.rank());
    }
    return exchange.all_to_all(lists_.head, out_.counts, in_.counts, async);
  }
  rows_.set(lists_, has_sums() ? &sums : nullptr);
  rows_.use(&algo::row_sums());
  auto* const to = static_cast<char*>(lists_.scratch);
  for (int r = 0; r < exchange.size(); ++r)
    rows_.gather(r, 0,
                 static_cast<uint64_t>(in_.counts[static_cast<size_t>(r)]),
                 to + in_.displs[static_cast<size_t>(r)], copy_row);
  return exchange.messages({scratch->data() + sent, out_.counts, out_.displs},
                           {scratch->data(), in_.counts, in_.displs}, tag,
                           async);
}

void RowExchange::end(const Exchange& exchange) {
  if (!by_messages_in(exchange)) return;
  const char* const from = static_cast<const char*>(lists_.scratch) +
                           in_.displs.back() + in_.counts.back();
  // Rows that are added up lie by their numbers, since none is this rank's.
  if (rows_.sums().adds()) return rows_.sums().add_all(from, rows_.row_bytes());
  for (int r = 0; r < exchange.size(); ++r)
    rows_.scatter(r, 0,
                  static_cast<uint64_t>(out_.counts[static_cast<size_t>(r)]),
                  from + out_.displs[static_cast<size_t>(r)], copy_row);
  if (with_own)
    rows_.keep(exchange.rank(), 0,
               static_cast<uint64_t>(own_bytes(exchange.rank())), copy_row);
}

}  // namespace distwrap::moe
