// A map that is read without a lock: for what is looked up in every call and
// rarely added. It forgets all entries when it has `kMost` of them.
//
// A reader counts itself while it reads. Entries that were forgotten are
// destroyed by the next `add` that finds no reader: whoever reads then began
// after they were forgotten.
//
// Threads: any. Ownership: of the entries; readers get copies.
#ifndef DISTWRAP_SRC_BASE_READ_MOSTLY_MAP_H_
#define DISTWRAP_SRC_BASE_READ_MOSTLY_MAP_H_

#include "base/mutex.h"

#include <absl/hash/hash.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace distwrap::base {

template <class Key, class Value, size_t kMost>
class ReadMostlyMap {
 public:
  ReadMostlyMap() = default;
  ReadMostlyMap(const ReadMostlyMap&) = delete;
  ReadMostlyMap& operator=(const ReadMostlyMap&) = delete;
  ~ReadMostlyMap() {
    for (const std::atomic<Node*>& bucket : buckets_) destroy(bucket.load());
    for (Node* const list : forgotten_) destroy(list);
  }

  // A copy of the value; nothing where the key has none.
  std::optional<Value> find(const Key& key) const {
    const Reader reader(readers_);
    const Node* node = bucket_of(key).load(std::memory_order_seq_cst);
    while (node != nullptr && !(node->key == key)) node = node->next;
    if (node == nullptr) return std::nullopt;
    return node->value;
  }

  // The value of the key: the one that is there, or else `value`.
  Value add(const Key& key, Value value) {
    auto made = std::make_unique<Node>(Node{key, std::move(value), nullptr});
    MutexLock lock(mutex_);
    if (std::optional<Value> there = find(key)) return *std::move(there);
    if (size_ == kMost) forget_all();
    if (readers_.load(std::memory_order_seq_cst) == 0) {
      for (Node* const list : forgotten_) destroy(list);
      forgotten_.clear();
    }
    std::atomic<Node*>& bucket = bucket_of(key);
    made->next = bucket.load(std::memory_order_relaxed);
    Value result = made->value;
    bucket.store(made.release(), std::memory_order_seq_cst);
    ++size_;
    return result;
  }

 private:
  struct Node {
    const Key key;
    const Value value;
    Node* next;
  };
  class Reader {
   public:
    explicit Reader(std::atomic<uint32_t>& readers) : readers_(readers) {
      readers_.fetch_add(1, std::memory_order_seq_cst);
    }
    ~Reader() { readers_.fetch_sub(1, std::memory_order_seq_cst); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

   private:
    std::atomic<uint32_t>& readers_;
  };

  std::atomic<Node*>& bucket_of(const Key& key) const {
    return buckets_[absl::Hash<Key>()(key) % buckets_.size()];
  }

  void forget_all() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    forgotten_.reserve(forgotten_.size() + buckets_.size());
    for (std::atomic<Node*>& bucket : buckets_)
      forgotten_.push_back(bucket.exchange(nullptr, std::memory_order_seq_cst));
    size_ = 0;
  }

  static void destroy(Node* node) {
    while (node != nullptr) delete std::exchange(node, node->next);
  }

  mutable std::array<std::atomic<Node*>, 64> buckets_{};
  mutable std::atomic<uint32_t> readers_{0};
  Mutex mutex_;
  size_t size_ ABSL_GUARDED_BY(mutex_) = 0;
  // Lists of nodes at which readers may still look.
  std::vector<Node*> forgotten_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_READ_MOSTLY_MAP_H_
