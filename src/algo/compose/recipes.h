// The operations that a backend has, and the recipes of those that it lacks.
//
// A table, compiled once from the backend's capability rows, so one load
// answers for an operation. All ranks of a group have equal rows and therefore
// choose equally. Facts that only one rank knows (in place, a list of parts)
// never change the recipe; they only add a copy.
//
//   const Recipes recipes(rows, DW_DEVICE_CPU);
//   const Recipes::Answer a = recipes.find(DW_OP_SCAN, 0, kF32, DW_REDUCE_SUM);
//   if (a.how == Recipes::kComposed) print(a.of);  // "send + recv"
//
// Threads: constant after construction. Ownership: a value.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_RECIPES_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_RECIPES_H_

#include "algo/below/dtypes.h"
#include "distwrap/abi/plugin.h"

#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <array>
#include <cstdint>
#include <vector>

namespace distwrap::algo::compose {

// The way in which a kind with a dtype and a reduction is made.
enum class Recipe : uint8_t {
  kRefused,
  kNative,
  kCarried,  // as another dtype of the same bytes
  kToSelf,   // a message to the same rank only
  kSumThenDivide,
  kScaleThenSum,
  kBarrierByAllReduce,
  kByMessages,
  kGatherByAllGather,
  kScatterByBroadcast,
  kAllGatherPadded,
  kAllToAllByAllGather,
  kReduceByAllReduce,
  kAllReduceByReduceScatter,  // then all_gather
  kAllReduceByReduce,         // then broadcast
  kReduceScatterByAllToAll,
  kReduceScatterByAllReduce,
  kKernelByAllGather,
};

// Operations on windows, which have no recipes.
inline constexpr uint64_t kWindowOps =
    DW_BIT(DW_OP_FENCE + 1) - DW_BIT(DW_OP_PUT);

class Recipes {
 public:
  static constexpr int kKinds = DW_OP_RECV + 1;  // the kinds that can be
                                                 // composed
  static constexpr int kDTypes = algo::kDTypes;
  static constexpr int kReductions = DW_REDUCE_PREMUL_SUM + 1;

  enum How : uint8_t { kIsNative, kComposed, kIsRefused };
  struct Answer {
    How how = kIsRefused;
    absl::string_view of;  // the operations of which it is composed; else empty
  };

  // The recipes of a backend without operations.
  Recipes() = default;
  // `rows` are for memory of `device_type` (DLPack's code). On a device there
  // are only the recipes that neither copy nor reduce by themselves, and hand
  // no memory of their own to the backend.
  Recipes(absl::Span<const dw_caps_row> rows, int32_t device_type);

  // `dtype` is DW_DTYPE_<NAME>, any value for a barrier. `reduce` is
  // DW_REDUCE_NONE for operations that do not reduce. DW_FLAG_CALLER_WAITS is
  // ignored.
  Answer find(uint16_t kind, uint32_t flags, int dtype, uint16_t reduce) const;
  // Whether the backend has everything, so that nothing is composed.
  bool complete() const {
    return collectives_complete_ && all_native(DW_OP_SEND) &&
           all_native(DW_OP_RECV);
  }
  // Whether the backend has all messages and, apart from windows, nothing else,
  // so that each collective is made of messages.
  bool only_messages() const { return only_messages_; }
  // Whether the backend has everything except messages, so that no collective
  // is composed.
  bool collectives_complete() const { return collectives_complete_; }
  // Whether a combination exists in the ABI, whatever the backend.
  static bool exists(uint16_t kind, uint32_t flags, int dtype, uint16_t reduce);

  // For the code that runs recipes. The arguments are in range: kind < kKinds
  // and so on.
  bool native(uint16_t kind, uint32_t flags, int dtype, uint16_t reduce) const {
    return (native_[kind][flag_index(flags)][static_cast<size_t>(dtype)] >>
                reduce &
            1) != 0;
  }
  // Whether a row with limits has a collective of `bytes` on each rank.
  bool native_at(uint16_t kind, uint32_t flags, int dtype, uint16_t reduce,
                 uint64_t bytes) const {
    return (limited_kinds_ >> kind & 1) != 0 &&
           find_limited(kind, flags, dtype, reduce, bytes);
  }
  bool caller_waits(uint16_t kind) const {
    return (caller_waits_ >> kind & 1) != 0;
  }
  Recipe recipe(uint16_t kind, uint32_t flags, int dtype,
                uint16_t reduce) const {
    return recipes_[kind][variant(flags)][static_cast<size_t>(dtype)][reduce];
  }
  // As `recipe`, with flags that only one rank knows: a form that the backend
  // lacks takes a copy, which host memory alone can have.
  Recipe recipe_of_form(uint16_t kind, uint32_t flags, int dtype,
                        uint16_t reduce) const {
    const Recipe chosen = recipe(kind, flags, dtype, reduce);
    return on_host_ || chosen == Recipe::kRefused ||
                   has_form(chosen, kind, flags, dtype, reduce)
               ? chosen
               : Recipe::kRefused;
  }
  // The dtype as which a move of `kCarried`, or the messages of `kByMessages`,
  // are sent: one of the same size, or u8; -1 if there is none.
  int carrier(uint16_t kind, uint32_t flags, int dtype) const {
    return carriers_[kind][variant(flags)][static_cast<size_t>(dtype)];
  }
  int message_carrier(int dtype) const { return carrier(DW_OP_SEND, 0, dtype); }
  // The dtype for barriers of kBarrierByAllReduce and kByMessages.
  int barrier_dtype() const { return barrier_dtype_; }

  // Whether the memory is the host's, so that recipes may copy and reduce.
  bool on_host() const { return on_host_; }

  // The flags that are known for a kind.
  static constexpr uint32_t flags_of(uint16_t kind) {
    constexpr uint64_t kUnformed =
        DW_BIT(DW_OP_BARRIER) | DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV);
    constexpr uint64_t kSplits = DW_BIT(DW_OP_GATHER) | DW_BIT(DW_OP_SCATTER) |
                                 DW_BIT(DW_OP_ALL_GATHER) |
                                 DW_BIT(DW_OP_REDUCE_SCATTER) |
                                 DW_BIT(DW_OP_ALL_TO_ALL);
    if ((kUnformed >> kind & 1) != 0) return 0;
    if ((kSplits >> kind & 1) != 0)
      return DW_FLAG_IN_PLACE | DW_FLAG_PER_RANK | DW_FLAG_PARTS;
    if (kind == DW_OP_SCAN) return DW_FLAG_IN_PLACE | DW_FLAG_EXCLUSIVE;
    return DW_FLAG_IN_PLACE;
  }
  static bool reduces(uint16_t kind);

 private:
  using DTypeMasks = std::array<uint16_t, kDTypes>;

  static constexpr size_t flag_index(uint32_t flags) {
    return (flags & DW_FLAG_IN_PLACE) | (flags & DW_FLAG_EXCLUSIVE) >> 2 |
           (flags & (DW_FLAG_PER_RANK | DW_FLAG_PARTS)) >> 4;
  }
  // An index made of the flags that all ranks of a call share; a kind has at
  // most one.
  static constexpr size_t variant(uint32_t flags) {
    return (flags & (DW_FLAG_PER_RANK | DW_FLAG_EXCLUSIVE)) != 0 ? 1 : 0;
  }

  // Adds rows to `native_`: all but those that only serve what cannot be
  // composed, or those alone.
  void read(absl::Span<const dw_caps_row> rows, int32_t device_type,
            bool last_resort);
  void add(const dw_caps_row& row, uint16_t kind, bool last_resort);
  void choose_all();
  bool find_limited(uint16_t kind, uint32_t flags, int dtype, uint16_t reduce,
                    uint64_t bytes) const;
  bool all_native(uint16_t kind) const;
  void choose_carriers();
  Recipe choose(uint16_t kind, uint32_t flags, int dtype,
                uint16_t reduce) const;
  Recipe choose_move(uint16_t kind, uint32_t flags, int dtype) const;
  Recipe choose_on_device(uint16_t kind, uint32_t flags, int dtype,
                          uint16_t reduce) const;
  bool has_form(Recipe chosen, uint16_t kind, uint32_t flags, int dtype,
                uint16_t reduce) const;
  Recipe choose_reduction(uint16_t kind, uint32_t flags, int dtype,
                          uint16_t reduce) const;
  bool messages(int dtype) const { return message_carrier(dtype) >= 0; }
  // Whether the backend's own operation of this kind makes it.
  bool direct(uint16_t kind, uint32_t flags, int dtype, uint16_t reduce) const;
  bool made(uint16_t kind, uint32_t flags, int dtype, uint16_t reduce) const {
    return choose(kind, flags, dtype, reduce) != Recipe::kRefused;
  }

  // [kind][flags][dtype]: a bit for each reduction; bit 0 for operations that
  // do not reduce.
  std::array<std::array<DTypeMasks, 16>, kKinds> native_{};
  uint64_t caller_waits_ = 0;         // bit per kind
  std::vector<dw_caps_row> limited_;  // rows with limits of sizes
  uint64_t limited_kinds_ = 0;        // kinds of these rows
  std::array<
      std::array<std::array<std::array<Recipe, kReductions>, kDTypes>, 2>,
      kKinds>
      recipes_{};
  std::array<std::array<std::array<int8_t, kDTypes>, 2>, kKinds> carriers_{};
  int8_t barrier_dtype_ = -1;
  bool on_host_ = false;
  bool collectives_complete_ = false;
  bool only_messages_ = false;
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_RECIPES_H_
