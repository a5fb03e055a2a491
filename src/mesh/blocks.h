// Parts of a rank's regions, and copying them to and from packed memory.
//
// Threads: none shared. Ownership: values.
#ifndef DISTWRAP_SRC_MESH_BLOCKS_H_
#define DISTWRAP_SRC_MESH_BLOCKS_H_

#include "distwrap/abi/blocks.h"
#include "layout/regions.h"

#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace distwrap::mesh {

// A part of the memory that holds a region row-major: strided runs of elements.
// Packed, the runs lie one behind the other.
class Block {
 public:
  // The elements that rank `a` holds by `held`, and rank `b` by `wanted`, in
  // the memory of the former. The order is that of the region.
  static Block common(const layout::Regions& held, int64_t a,
                      const layout::Regions& wanted, int64_t b);

  int64_t count() const { return count_; }
  // Whether the block is one run, and where that begins.
  bool is_one_run() const { return outer_.empty(); }
  int64_t begin() const { return begin_; }

  // Describes the block in bytes, with elements of `size` bytes. False: its
  // runs do not lie at regular distances along three dimensions at most.
  bool regular(size_t size, dw_block* block) const;

  // Copy elements of `size` bytes between packed memory and the memory of the
  // region: all, or those from `begin` to `end` in the order of the block.
  void pack(std::byte* packed, const std::byte* region, size_t size) const {
    pack(packed, region, size, 0, count_);
  }
  void unpack(const std::byte* packed, std::byte* region, size_t size) const {
    unpack(packed, region, size, 0, count_);
  }
  void pack(std::byte* packed, const std::byte* region, size_t size,
            int64_t begin, int64_t end) const;
  void unpack(const std::byte* packed, std::byte* region, size_t size,
              int64_t begin, int64_t end) const;

 private:
  // Calls f(first, count) for each run of elements in the region's memory that
  // the elements from `begin` to `end` lie in.
  template <class F>
  void each_run(int64_t begin, int64_t end, const F& f) const;

  // Where runs begin along each outer dimension, in elements; the outermost
  // dimension first.
  std::vector<std::vector<int64_t>> outer_;
  int64_t begin_ = 0;  // the first run's
  int64_t run_ = 0;    // elements of each run
  int64_t count_ = 0;
};

// A share of each member's elements: part `number` of `parts` of about equal
// size.
struct Share {
  int64_t number = 0, parts = 1;
  int64_t begin(int64_t count) const { return at(count, number); }
  int64_t end(int64_t count) const { return at(count, number + 1); }

 private:
  // No product of a count and a number, which might overflow.
  int64_t at(int64_t count, int64_t n) const {
    return count / parts * n + count % parts * n / parts;
  }
};

// The blocks that a rank sends to each member of a group, or gets from each.
// They lie packed one behind the other: for each member those of each tensor.
class Blocks {
 public:
  // The blocks that are added from now on are the next member's.
  void begin_member() { counts_.push_back(0); }
  // A block of a tensor's region. Precondition: a member has begun.
  void add(Block block, size_t tensor);

  // The elements of each member, and of all.
  const std::vector<int64_t>& counts() const { return counts_; }
  std::vector<int64_t> counts(Share share) const;
  std::vector<int64_t> counts(absl::Span<const Share> shares) const;
  int64_t total() const { return total_; }
  int64_t total(Share share) const;
  // Whether the memory of the first tensor's region is the packed memory.
  bool is_packed() const { return is_packed_; }
  // `regions`: the memory of each tensor's region.
  void pack(std::byte* packed, const std::byte* const* regions, size_t size,
            Share share = {}) const;
  // Packs a share of its own for each member.
  void pack(std::byte* packed, const std::byte* const* regions, size_t size,
            absl::Span<const Share> shares) const;
  void unpack(const std::byte* packed, std::byte* const* regions, size_t size,
              Share share = {}) const;

  // Calls f(member, block) for each block with elements, until one returns
  // false; returns that.
  template <class F>
  bool each_block(const F& f) const {
    for (const Placed& one : placed_)
      if (one.block.count() != 0 && !f(one.member, one.block)) return false;
    return true;
  }
  // The block that was added as number `i`, for steps without members.
  const Block& block(size_t i) const { return placed_[i].block; }

 private:
  struct Placed {
    Block block;
    size_t tensor, member;
  };
  // Calls f(placed, begin, end) for the elements of the members' shares, with
  // share_of(member).
  template <class S, class F>
  void each_part(const S& share_of, const F& f) const;

  std::vector<Placed> placed_;
  std::vector<int64_t> counts_;
  int64_t total_ = 0;
  bool is_packed_ = true;
};

}  // namespace distwrap::mesh

#endif  // DISTWRAP_SRC_MESH_BLOCKS_H_
