// The handles of C programs: numbers that are checked at every use.
//
// A handle names a slot of a table, the kind of its value, and the slot's
// generation, which changes when the handle is freed. A handle that was freed,
// was never given out, or is of another kind is therefore recognised without
// reading memory that may be gone. The kind is in the highest bits, so a handle
// is no valid address: a program that dereferences it faults at once.
//
//   if (const auto group = groups().find(handle)) use(*group);
//
// Threads: any. A value that `find` returned stays alive until it is released,
// even if another thread frees the handle meanwhile; the slot is reused only
// afterwards. Each use is counted in the slot, by two locked instructions. For
// kinds that every call uses and that are rarely freed, a thread's first use is
// a mark instead (comm/thread_marks.h), and the thread that frees the handle
// adds the marked uses to the count.
#ifndef DISTWRAP_SRC_CAPI_HANDLES_H_
#define DISTWRAP_SRC_CAPI_HANDLES_H_

#include "base/mutex.h"
#include "comm/thread_marks.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace distwrap::capi {

enum class Kind : uint64_t {
  kReader = 3,
  kWriter = 4,
  kPages = 5,
  kMemory = 6,
  kWindow = 7,
  kSession = 8,
  kGroup,
  kWork,
  kBatch,
  kStore,
  kList,
  kError,
  kHook,
  kMesh,
  kPlan,
  kMoePlan,
  kMoePending,
  kDedupRequest,
  kAllToAllV,
  kPrepared,
};

inline constexpr int kIndexBits = 20, kGenerationBits = 38, kKindShift = 58;

// The kinds whose uses are marked instead of counted.
constexpr bool is_marked(Kind kind) { return kind == Kind::kGroup; }

// The kind that is written in a handle.
constexpr Kind kind_of(uint64_t handle) {
  return static_cast<Kind>(handle >> kKindShift);
}

template <class T, Kind kKind>
class HandleTable {
 private:
  // The bits of a slot's word, from the lowest on: the number of uses, whether
  // the handle is valid, the generation.
  static constexpr int kPinBits = 63 - kGenerationBits;
  static constexpr uint64_t kPins = (uint64_t{1} << kPinBits) - 1;
  static constexpr uint64_t kGood = uint64_t{1} << kPinBits;
  static constexpr int kGenerationShift = kPinBits + 1;
  static constexpr uint64_t kNextGeneration = uint64_t{1} << kGenerationShift;

  struct Slot {
    std::atomic<uint64_t> word{0};
    std::atomic<uint32_t> next{0};  // index + 1 of the next free slot
    uint32_t index = 0;
    alignas(T) std::byte memory[sizeof(T)];
    T* value() { return std::launder(reinterpret_cast<T*>(memory)); }
  };

 public:
  // A value in use; null for an invalid handle. The thread that found it has to
  // release it.
  class Held {
   public:
    Held() = default;
    Held(Held&& other) noexcept
        : table_(other.table_),
          slot_(std::exchange(other.slot_, nullptr)),
          mark_(other.mark_) {}
    Held& operator=(Held&& other) noexcept {
      std::swap(table_, other.table_);
      std::swap(slot_, other.slot_);
      std::swap(mark_, other.mark_);
      return *this;
    }
    ~Held() {
      if (slot_ == nullptr) return;
      if (mark_ != 0)
        table_->unmark(*slot_, mark_);
      else
        table_->let_go(*slot_);
    }
    explicit operator bool() const { return slot_ != nullptr; }
    T& operator*() const { return *slot_->value(); }
    T* operator->() const { return slot_->value(); }

   private:
    friend class HandleTable;
    Held(HandleTable* table, Slot* slot, uint64_t mark = 0)
        : table_(table), slot_(slot), mark_(mark) {}
    HandleTable* table_ = nullptr;
    Slot* slot_ = nullptr;
    uint64_t mark_ = 0;  // the mark's word when the use is marked, not counted
  };

  // A slot that is kept for a value to come, so that giving out its handle
  // cannot fail.
  class Reservation {
   public:
    Reservation(Reservation&& other) noexcept
        : table_(other.table_), slot_(std::exchange(other.slot_, nullptr)) {}
    Reservation& operator=(Reservation&&) = delete;
    ~Reservation() {
      if (slot_ != nullptr) table_->put_free(*slot_);
    }
    explicit operator bool() const { return slot_ != nullptr; }

   private:
    friend class HandleTable;
    Reservation(HandleTable* table, Slot* slot) : table_(table), slot_(slot) {}
    HandleTable* table_;
    Slot* slot_;
  };

  constexpr HandleTable() = default;
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // Empty when there are too many handles.
  Reservation reserve() { return Reservation(this, take_free()); }
  // A new handle; 0 when there are too many.
  uint64_t add(T value) {
    Reservation reserved = reserve();
    return reserved ? add(std::move(reserved), std::move(value)) : 0;
  }
  // The handle in the reserved slot.
  uint64_t add(Reservation reserved, T value) noexcept {
    static_assert(std::is_nothrow_move_constructible_v<T>);
    Slot* const slot = std::exchange(reserved.slot_, nullptr);
    new (slot->memory) T(std::move(value));
    const uint64_t word = slot->word.fetch_or(kGood, std::memory_order_release);
    return static_cast<uint64_t>(kKind) << kKindShift |
           word >> kGenerationShift << kIndexBits | slot->index;
  }

  Held find(uint64_t handle) {
    Slot* const slot = slot_of(handle);
    if (slot == nullptr) return {};
    const uint64_t good = good_word(handle);
    if constexpr (is_marked(kKind))
      if (mark(*slot)) [[likely]] {
        if ((slot->word.load(std::memory_order_acquire) & ~kPins) == good)
            [[likely]]
          return Held(this, slot, good);
        unmark(*slot, good);
        return {};
      }
    uint64_t word = slot->word.load(std::memory_order_relaxed);
    while ((word & ~kPins) == good)
      if (slot->word.compare_exchange_weak(word, word + 1,
                                           std::memory_order_acquire,
                                           std::memory_order_relaxed))
        return Held(this, slot);
    return {};
  }

  // Frees a handle; false when it was invalid.
  bool remove(uint64_t handle) {
    Slot* const slot = slot_of(handle);
    if (slot == nullptr) return false;
    uint64_t word = slot->word.load(std::memory_order_relaxed);
    while ((word & ~kPins) == good_word(handle)) {
      // This thread holds one use until all marked uses are counted.
      if (!slot->word.compare_exchange_weak(word,
                                            word - kGood + kNextGeneration + 1,
                                            std::memory_order_acq_rel))
        continue;
      if constexpr (is_marked(kKind)) count_marks(*slot);
      let_go(*slot);
      return true;
    }
    return false;
  }

 private:
  static constexpr uint32_t kChunk = 256;  // number of slots that are allocated
                                           // together
  static constexpr uint32_t kChunks = (uint32_t{1} << kIndexBits) / kChunk;

  static constexpr uint64_t good_word(uint64_t handle) {
    return (handle >> kIndexBits & ((uint64_t{1} << kGenerationBits) - 1))
               << kGenerationShift |
           kGood;
  }

  Slot* slot_of(uint64_t handle) {
    if (kind_of(handle) != kKind) return nullptr;
    const uint64_t index = handle & ((uint64_t{1} << kIndexBits) - 1);
    Slot* const chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + index % kChunk;
  }

  // Returns false when the thread's mark is in use, or when marks cannot be
  // trusted.
  static bool mark(Slot& slot) {
    if (!comm::ThreadMarks::asymmetric()) return false;
    comm::ThreadMarks::Mark& mark = comm::ThreadMarks::mine().handle;
    if (mark.load(std::memory_order_relaxed) != 0) return false;
    comm::ThreadMarks::put(mark, reinterpret_cast<uintptr_t>(&slot));
    return true;
  }

  void unmark(Slot& slot, uint64_t good) {
    comm::ThreadMarks::put(comm::ThreadMarks::mine().handle, 0);
    if ((slot.word.load(std::memory_order_acquire) & ~kPins) != good)
        [[unlikely]]
      settle(slot);
  }

  // The handle was freed meanwhile, by a thread that may have counted this
  // thread's use.
  [[gnu::noinline, gnu::cold]] void settle(Slot& slot) {
    comm::ThreadMarks& mine = comm::ThreadMarks::mine();
    bool counted = false;
    comm::ThreadMarks::visit([&](comm::ThreadMarks& marks) {
      if (&marks != &mine || marks.owed != &slot) return;
      marks.owed = nullptr;
      counted = true;
    });
    if (counted) let_go(slot);
  }

  void count_marks(Slot& slot) {
    comm::ThreadMarks::barrier();
    comm::ThreadMarks::visit([&](comm::ThreadMarks& marks) {
      if (marks.handle.load(std::memory_order_seq_cst) !=
          reinterpret_cast<uintptr_t>(&slot))
        return;
      marks.owed = &slot;
      slot.word.fetch_add(1, std::memory_order_relaxed);
    });
  }

  void let_go(Slot& slot) {
    const uint64_t word = slot.word.fetch_sub(1, std::memory_order_acq_rel);
    if ((word & (kGood | kPins)) == 1) clear(slot);
  }

  // Destroys the value after the handle was freed and the last use has ended.
  [[gnu::noinline, gnu::cold]] void clear(Slot& slot) {
    std::destroy_at(slot.value());
    put_free(slot);
  }

  // The list of free slots. Its head has a counter beside the index, which
  // solves the ABA problem.
  void put_free(Slot& slot) {
    uint64_t head = free_.load(std::memory_order_relaxed);
    do {
      slot.next.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    } while (!free_.compare_exchange_weak(
        head, ((head >> 32) + 1) << 32 | (slot.index + 1),
        std::memory_order_release, std::memory_order_relaxed));
  }

  Slot* take_free() {
    uint64_t head = free_.load(std::memory_order_acquire);
    for (;;) {
      const auto first = static_cast<uint32_t>(head);
      if (first == 0) {
        if (!grow()) return nullptr;
        head = free_.load(std::memory_order_acquire);
        continue;
      }
      Slot& slot =
          *(chunks_[(first - 1) / kChunk].load(std::memory_order_acquire) +
            (first - 1) % kChunk);
      const uint32_t next = slot.next.load(std::memory_order_relaxed);
      if (free_.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | next,
                                      std::memory_order_acquire,
                                      std::memory_order_acquire))
        return &slot;
    }
  }

  bool grow() {
    base::MutexLock lock(mutex_);
    if (static_cast<uint32_t>(free_.load(std::memory_order_acquire)) != 0)
      return true;  // another thread has added one
    if (used_ == kChunks) return false;
    Slot* const chunk = new Slot[kChunk];  // never freed: handles may be used
                                           // for ever
    for (uint32_t i = 0; i < kChunk; ++i) chunk[i].index = used_ * kChunk + i;
    chunks_[used_++].store(chunk, std::memory_order_release);
    for (uint32_t i = kChunk; i-- > 0;) put_free(chunk[i]);
    return true;
  }

  std::atomic<uint64_t> free_{0};
  std::array<std::atomic<Slot*>, kChunks> chunks_{};
  base::Mutex mutex_;
  uint32_t used_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace distwrap::capi

#endif  // DISTWRAP_SRC_CAPI_HANDLES_H_
