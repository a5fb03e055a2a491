// Which operations a backend has, and of what the missing ones are made.
//
// A table, compiled once from the backend's capability rows: one load answers
// for an operation. All ranks of a group have equal rows, so all choose alike;
// what only one rank knows (in place, a list of parts) never changes of what an
// operation is made, but only adds a copy.
//
//   const Recipes recipes(rows, DW_DEVICE_CPU);
//   const Recipes::Answer a = recipes.find(DW_OP_SCAN, 0, kF32, DW_REDUCE_SUM);
//   if (a.how == Recipes::kComposed) print(a.of);  // "send + recv"
//
// Threads: constant after construction. Ownership: a value.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_RECIPES_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_RECIPES_H_

#include "distwrap/abi/plugin.h"

#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <array>
#include <cstdint>

namespace distwrap::algo::compose {

// How a kind with a dtype and a reduction is made.
enum class Recipe : uint8_t {
  kRefused,
  kNative,
  kCarried,  // the same, as another dtype of the same bytes
  kToSelf,   // a message to oneself only
  kSumThenDivide,
  kScaleThenSum,
  kBarrierByAllReduce,
  kByMessages,
  kGatherByAllGather,
  kScatterByBroadcast,
  kAllGatherPadded,
  kAllToAllByAllGather,
  kReduceByAllReduce,
  kAllReduceByReduceScatter,  // and all_gather
  kAllReduceByReduce,         // and broadcast
  kReduceScatterByAllToAll,
  kReduceScatterByAllReduce,
  kKernelByAllGather,
};

// Operations on windows, of which there are no recipes.
inline constexpr uint64_t kWindowOps =
    DW_BIT(DW_OP_FENCE + 1) - DW_BIT(DW_OP_PUT);

class Recipes {
 public:
  static constexpr int kKinds = DW_OP_RECV + 1;  // what can be composed
  static constexpr int kDTypes = DW_DTYPE_BOOL + 1;
  static constexpr int kReductions = DW_REDUCE_PREMUL_SUM + 1;

  enum How : uint8_t { kIsNative, kComposed, kIsRefused };
  struct Answer {
    How how = kIsRefused;
    absl::string_view of;  // what it is composed of; else empty
  };

  // A backend that has nothing.
  Recipes() = default;
  // Rows for memory of `device_type` (DLPack's). Only operations on host memory
  // are composed.
  Recipes(absl::Span<const dw_caps_row> rows, int32_t device_type);

  // `dtype` is DW_DTYPE_<NAME>, any for a barrier; `reduce` is DW_REDUCE_NONE
  // for what does not reduce. DW_FLAG_CALLER_WAITS is ignored.
  Answer find(uint16_t kind, uint32_t flags, int dtype, uint16_t reduce) const;
  // The backend has everything itself: nothing is left to compose.
  bool complete() const {
    return collectives_complete_ && all_native(DW_OP_SEND) &&
           all_native(DW_OP_RECV);
  }
  // It has all messages and, but for windows, nothing else: each collective is
  // made of those.
  bool only_messages() const { return only_messages_; }
  // Likewise, but for messages: no collective is ever composed.
  bool collectives_complete() const { return collectives_complete_; }
  // Whether a combination exists at all, on whatever backend.
  static bool exists(uint16_t kind, uint32_t flags, int dtype, uint16_t reduce);

  // For whoever cooks. The arguments are in range: kind < kKinds and so on.
  bool native(uint16_t kind, uint32_t flags, int dtype, uint16_t reduce) const {
    return (native_[kind][flag_index(flags)][static_cast<size_t>(dtype)] >>
                reduce &
            1) != 0;
  }
  bool caller_waits(uint16_t kind) const {
    return (caller_waits_ >> kind & 1) != 0;
  }
  Recipe recipe(uint16_t kind, uint32_t flags, int dtype,
                uint16_t reduce) const {
    return recipes_[kind][variant(flags)][static_cast<size_t>(dtype)][reduce];
  }
  // As which dtype a move of `kCarried` goes, or messages of `kByMessages`: of
  // the same size, or u8; -1 if there is none.
  int carrier(uint16_t kind, uint32_t flags, int dtype) const {
    return carriers_[kind][variant(flags)][static_cast<size_t>(dtype)];
  }
  int message_carrier(int dtype) const { return carrier(DW_OP_SEND, 0, dtype); }
  // Likewise for barriers of kBarrierByAllReduce and kByMessages.
  int barrier_dtype() const { return barrier_dtype_; }

  // Whether anything may be composed here: the memory is the host's.
  bool composes() const { return composes_; }

  // Flags that are known for a kind.
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
  // Of the flags that all ranks of a call share; a kind has at most one.
  static constexpr size_t variant(uint32_t flags) {
    return (flags & (DW_FLAG_PER_RANK | DW_FLAG_EXCLUSIVE)) != 0 ? 1 : 0;
  }

  void read(absl::Span<const dw_caps_row> rows, int32_t device_type);
  bool all_native(uint16_t kind) const;
  void choose_carriers();
  Recipe choose(uint16_t kind, uint32_t flags, int dtype,
                uint16_t reduce) const;
  Recipe choose_move(uint16_t kind, uint32_t flags, int dtype) const;
  Recipe choose_reduction(uint16_t kind, uint32_t flags, int dtype,
                          uint16_t reduce) const;
  bool messages(int dtype) const { return message_carrier(dtype) >= 0; }
  // Made by the backend's own operation of this kind.
  bool direct(uint16_t kind, uint32_t flags, int dtype, uint16_t reduce) const;
  bool made(uint16_t kind, uint32_t flags, int dtype, uint16_t reduce) const {
    return choose(kind, flags, dtype, reduce) != Recipe::kRefused;
  }

  // [kind][flags][dtype]: bit per reduction, bit 0 for what does not reduce.
  std::array<std::array<DTypeMasks, 16>, kKinds> native_{};
  uint64_t caller_waits_ = 0;  // bit per kind
  std::array<
      std::array<std::array<std::array<Recipe, kReductions>, kDTypes>, 2>,
      kKinds>
      recipes_{};
  std::array<std::array<std::array<int8_t, kDTypes>, 2>, kKinds> carriers_{};
  int8_t barrier_dtype_ = -1;
  bool composes_ = false;
  bool collectives_complete_ = false;
  bool only_messages_ = false;
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_RECIPES_H_
