// An exchange of rows that lie apart, as one all_to_all whose extensions say
// where they lie and which are added up (abi/moe.h); as messages where some
// ranks do not call, or where the exchange has no place among the group's
// collectives.
//
//   RowExchange& rows = memory.rows;
//   rows.begin(own.row_first, layout.row_first);
//   rows.give = own.row_token.data();
//   rows.channels.push_back({x, out, row_bytes});
//   StatusOr<Work> work = rows.start(exchange, &scratch, tag, async);
//   ...
//   rows.end(exchange);
//
// Threads: one at a time. Ownership: lists and channels' memory are the
// caller's, until the exchange has ended, as this object is.
#ifndef DISTWRAP_SRC_MOE_ROW_EXCHANGE_H_
#define DISTWRAP_SRC_MOE_ROW_EXCHANGE_H_

#include "distwrap/abi/moe.h"
#include "distwrap/work.h"
#include "moe/bytes.h"
#include "moe/exchange.h"
#include "sdk/moe_rows.h"

#include <absl/container/inlined_vector.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

namespace distwrap::moe {

class RowExchange {
 public:
  // Rows give_first[r] up to give_first[r + 1] - 1 are those for rank r, and
  // rows get_first[r] and on those from it; both (R+1). Forgets the lists and
  // channels of the exchange before.
  void begin(const std::vector<int64_t>& give_first,
             const std::vector<int64_t>& get_first);
  // As in dw_ext_moe; null where rows lie in order or are sums.
  const int32_t* give = nullptr;
  const int64_t* place_first = nullptr;
  const int32_t* place = nullptr;
  absl::InlinedVector<dw_moe_channel, 4> channels;
  // Whether this rank's rows for itself move, too.
  bool with_own = true;
  // Moves rows by messages in any case.
  bool by_messages = false;
  // Sums of rows, if one of its lists has terms; without rows for itself.
  dw_ext_moe_sum sums = {};

  // `scratch` grows to what rows need on their way.
  absl::StatusOr<Work> start(const Exchange& exchange, Bytes* scratch,
                             int64_t tag, bool async);
  // After the Work: all rows are at their places.
  void end(const Exchange& exchange);

 private:
  bool has_sums() const {
    return sums.given.first != nullptr || sums.results.first != nullptr;
  }
  bool by_messages_in(const Exchange& exchange) const {
    return by_messages || exchange.has_masked();
  }
  int64_t own_bytes(int rank) const;

  const std::vector<int64_t>*give_first_ = nullptr, *get_first_ = nullptr;
  PartSizes in_, out_;
  dw_ext_moe lists_ = {};
  dw_sdk::MoeRows rows_;  // for messages
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_ROW_EXCHANGE_H_
