// Parts of a rank's region, and copying them to and from packed memory.
//
// Threads: none shared. Ownership: values.
#ifndef DISTWRAP_SRC_MESH_BLOCKS_H_
#define DISTWRAP_SRC_MESH_BLOCKS_H_

#include "layout/regions.h"

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

  // Copy elements of `size` bytes between packed memory and the memory of the
  // region.
  void pack(std::byte* packed, const std::byte* region, size_t size) const;
  void unpack(const std::byte* packed, std::byte* region, size_t size) const;

 private:
  template <class F>
  void each_run(const F& f) const;

  // Where runs begin along each outer dimension, in elements; the outermost
  // dimension first.
  std::vector<std::vector<int64_t>> outer_;
  int64_t begin_ = 0;  // the first run's
  int64_t run_ = 0;    // elements of each run
  int64_t count_ = 0;
};

// Blocks that lie packed one behind the other: of each member of a group.
class Blocks {
 public:
  void add(Block block);
  const std::vector<int64_t>& counts() const { return counts_; }
  int64_t total() const { return total_; }
  // Whether the memory of the region is the packed memory.
  bool is_packed() const { return is_packed_; }
  void pack(std::byte* packed, const std::byte* region, size_t size) const;
  void unpack(const std::byte* packed, std::byte* region, size_t size) const;

 private:
  std::vector<Block> blocks_;
  std::vector<int64_t> counts_;
  int64_t total_ = 0;
  bool is_packed_ = true;
};

}  // namespace distwrap::mesh

#endif  // DISTWRAP_SRC_MESH_BLOCKS_H_
