// Blocks, groups and memory of each step by which a rank moves its parts of one
// tensor, or of several at once.
//
// Threads: any may run it. The memory in between is kept from run to run; runs
// that overlap in time have their own. Ownership: counted by Redistribution.
#ifndef DISTWRAP_SRC_MESH_PREPARED_H_
#define DISTWRAP_SRC_MESH_PREPARED_H_

#include "distwrap/group.h"
#include "distwrap/op_options.h"
#include "distwrap/plan.h"
#include "distwrap/reduce_op.h"
#include "distwrap/tensor_view.h"
#include "layout/regions.h"
#include "mesh/blocks.h"
#include "mesh/mesh_state.h"
#include "mesh/step_blocks.h"
#include "mesh/step_call.h"
#include "mesh/wire_form.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::mesh {

using Shapes = std::vector<std::vector<int64_t>>;

// The number of rounds in which a step is made, by what its ranks pack.
class Rounds {
 public:
  // The blocks of one of the ranks. In two levels every rank packs, and twice.
  void add(const Blocks& send, const Blocks& receive, bool two_levels);
  // So many that a rank packs at most about `room` bytes in each, if any packs;
  // `size`: bytes of an element.
  int64_t number(int64_t room, size_t size) const;

 private:
  int64_t most_ = 0;  // elements that the rank with the most packs
};

// Exchanges of fewer bytes, held and gotten by a rank, are faster packed: they
// need one slot of each rank.
inline constexpr int64_t kLeastBlockBytes = 64 << 10;

class Prepared {
 public:
  // `plans`: one for each tensor, with equal steps.
  // `wire`: the type in which values travel, if it is another one.
  static absl::StatusOr<std::shared_ptr<Prepared>> make(
      const DeviceMesh& mesh, absl::Span<const PlanRef> plans, DType dtype,
      std::optional<DType> wire);
  // Between two meshes, of which this rank is in one at least: what is partial
  // is reduced on the first mesh, and made partial on the second.
  static absl::StatusOr<std::shared_ptr<Prepared>> make_between(
      const DeviceMesh& to_mesh, const Layout& to, const DeviceMesh& from_mesh,
      const Layout& from, const std::vector<int64_t>& shape, DType dtype,
      std::optional<DType> wire, const PlanOptions& options);
  ~Prepared() { delete[] spare_.load(std::memory_order_acquire); }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  DType dtype() const { return form_.outside(); }
  // The elements of this rank's part of each tensor.
  const std::vector<int64_t>& in_counts() const { return in_counts_; }
  const std::vector<int64_t>& out_counts() const { return out_counts_; }

  // Whether there is an exchange or a gather, by a backend that moves strided
  // pieces. Equal on all ranks of the mesh.
  bool backend_moves_blocks() const { return backend_moves_blocks_; }

  // The asynchronous redistributions of the mesh that it is on, or from which
  // it leads.
  InOrder& in_order() const { return *in_order_; }

  // One part of each tensor, of the right size and type.
  absl::Status run(absl::Span<const LocalTensor> outs,
                   absl::Span<const LocalTensor> ins,
                   std::optional<absl::Duration> timeout) const;

 private:
  // A step in two levels (two_levels.cc): with the ranks that share a host, and
  // in a reduction with those that have this rank's place on the other hosts.
  struct Levels {
    Group near, far;
    int64_t ranks = 1;                 // the size of `near`; 1: no levels
    int64_t place = 0;                 // this rank's place in `near`
    std::vector<int64_t> places = {};  // each member's place on its host
  };
  struct Step {
    PlanStep::Kind kind = PlanStep::Kind::kSlice;
    Group group;
    ReduceOp op = ReduceOp::kSum;
    int64_t divisor = 1;
    bool keeps = true;  // in a kFill, whether this rank has the values
    Blocks send, receive;
    Levels levels;
    // The step is made in so many parts, so that what is packed stays small.
    // Equal on all ranks of the group.
    int64_t rounds = 1;
    std::vector<int64_t> counts;  // elements of each tensor after the step
    std::string label;
    // Null: the step has no group, or goes in rounds.
    std::unique_ptr<StepCall> call;
    // Whether the backend moves the blocks of this exchange or gather where
    // they lie. Equal on all ranks of the group.
    bool moves_blocks = false;
    // Null: the pieces are packed.
    std::unique_ptr<StepBlocks> blocks;
  };
  // The memory of one run: results between steps, which take turns in two
  // places, packed blocks of a step, and the parts in the form in which they
  // travel, where that is another one.
  class Staging {
   public:
    Staging(const Prepared& of, bool converts_in, bool converts_out);
    ~Staging();
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    std::byte* between(size_t which) const {
      return memory_ + which * of_.bytes(of_.between_);
    }
    std::byte* pieces() const { return between(of_.places_); }
    std::byte* parts() const { return pieces() + of_.bytes(of_.pieces_); }
    std::byte* middle() const { return parts() + of_.bytes(of_.parts_); }
    std::byte* given() const { return middle() + of_.bytes(of_.middle_); }
    std::byte* made() const { return given() + given_bytes_; }

   private:
    // Memory begins with its own size, in bytes.
    static constexpr size_t kHead = 64;

    const Prepared& of_;
    size_t given_bytes_ = 0;
    std::byte* block_ = nullptr;   // with the head
    std::byte* memory_ = nullptr;  // behind it
  };

  Prepared(const WireForm& form, const DeviceMesh& mesh)
      : form_(form),
        size_(form.size()),
        in_order_(mesh.state()->in_order()),
        meshes_{mesh.state()} {}

  // Add steps to the end.
  absl::Status add_plans(const DeviceMesh& mesh,
                         absl::Span<const PlanRef> plans);
  absl::Status add_exchange(const DeviceMesh& to_mesh, const Layout& to,
                            const DeviceMesh& from_mesh, const Layout& from,
                            const std::vector<int64_t>& shape, int64_t room);
  static absl::StatusOr<Levels> make_levels(const DeviceMesh& mesh,
                                            const PlanStep& step);
  // Finds out what memory the steps need, and how they are called. `text`: what
  // all ranks of a step's group know of the redistribution.
  void finish(const std::string& text);

  // The steps, with one address for each tensor, in the form of `form_`.
  absl::Status run_steps(absl::Span<std::byte* const> out,
                         absl::Span<const std::byte* const> in,
                         const Staging& staging,
                         std::optional<absl::Duration> timeout) const;
  // After a step has failed and broken its group: breaks the groups of the
  // other steps, too, with the same cause. A rank of theirs may share no group
  // with the rank that failed, and would wait for this one until its deadline.
  // Where ranks asked for different plans, they may wait in any group of the
  // mesh.
  void break_groups(const absl::Status& failure) const;
  absl::Status run_step(const Step& step, std::byte* const* to,
                        const std::byte* const* from, const Staging& staging,
                        std::optional<absl::Duration> timeout) const;
  // A step whose blocks are packed part by part.
  absl::Status run_rounds(const Step& step, std::byte* const* to,
                          const std::byte* const* from, const Staging& staging,
                          std::optional<absl::Duration> timeout) const;
  // The rounds of a step in two levels.
  absl::Status run_levels(const Step& step, std::byte* const* to,
                          const std::byte* const* from, const Staging& staging,
                          std::optional<absl::Duration> timeout) const;
  // Reduces a share within the host; `counts`: values of each of its ranks.
  // Returns this rank's, in the staging.
  absl::StatusOr<TensorView> reduce_on_host(const Step& step, Share share,
                                            const std::byte* const* from,
                                            std::vector<int64_t> counts,
                                            const Staging& staging,
                                            OpOptions options) const;
  absl::Status reduce_in_levels(const Step& step, Share share,
                                std::byte* const* to,
                                const std::byte* const* from,
                                const Staging& staging,
                                OpOptions options) const;
  absl::Status scatter_in_levels(const Step& step, Share share,
                                 std::byte* const* to,
                                 const std::byte* const* from,
                                 const Staging& staging,
                                 OpOptions options) const;
  absl::Status fetch_in_levels(const Step& step, Share share,
                               std::byte* const* to,
                               const std::byte* const* from,
                               const Staging& staging, OpOptions options) const;
  // Counts of values as those of elements.
  std::vector<int64_t> elements(std::vector<int64_t> counts) const {
    for (int64_t& count : counts) count *= form_.words();
    return counts;
  }
  absl::Status communicate(const Step& step, TensorView to, TensorView from,
                           std::optional<absl::Duration> timeout) const;
  // An exchange or gather whose blocks the backend moves where they lie.
  absl::Status run_blocks(const Step& step, std::byte* to,
                          const std::byte* from,
                          std::optional<absl::Duration> timeout) const;
  // Whether the exchange or gather among these ranks of its group is left to a
  // backend that moves strided pieces: some rank would have to pack, and the
  // blocks of all can be described. `elements`: that a rank holds and gets, at
  // most.
  template <class BlocksOf>
  bool leaves_blocks(const Step& step, absl::Span<const int64_t> ranks,
                     int64_t elements, const BlocksOf& blocks_of) const {
    if (elements < kLeastBlockBytes / static_cast<int64_t>(size_)) return false;
    bool some_packs = false, all_fit = true;
    for (const int64_t rank : ranks) {
      const auto [send, receive] = blocks_of(rank);
      some_packs |= !send.is_packed() || !receive.is_packed();
      all_fit &=
          StepBlocks::fit(send, size_) && StepBlocks::fit(receive, size_);
    }
    return some_packs && all_fit && moves_blocks(step);
  }
  // Whether the backend of the step's group moves strided pieces.
  static bool moves_blocks(const Step& step);
  absl::Status communicate_share(const Step& step, Share share, TensorView to,
                                 TensorView from,
                                 const OpOptions& options) const;
  // The bytes that a step may pack beside results of `between` elements, which
  // lie between the steps: the rest of the cap, but at least half of it.
  int64_t room_for_packing(int64_t cap_bytes, int64_t between) const {
    const auto size = static_cast<int64_t>(size_);
    return std::max(cap_bytes / 2,
                    cap_bytes - std::min(between, cap_bytes / size) * size);
  }
  // The form of the values, for the ranks to compare.
  std::string form_text() const;
  TensorView view(const std::byte* data, int64_t count) const;
  size_t bytes(int64_t count) const {
    return static_cast<size_t>(count) * size_;
  }

  const WireForm form_;
  const size_t size_;  // bytes of a value that travels
  const std::shared_ptr<InOrder> in_order_;
  // A mesh keeps what is prepared on it, so not the other way round.
  std::vector<std::weak_ptr<MeshState>> meshes_;
  std::vector<int64_t> in_counts_, out_counts_;
  bool backend_moves_blocks_ = false;
  std::vector<Step> steps_;  // none: the parts are copied
  // Elements of the largest result between steps, of packed blocks, and of what
  // lies between the levels of a step.
  int64_t between_ = 0, pieces_ = 0, parts_ = 0, middle_ = 0;
  size_t places_ = 0;  // for results between steps, at most two at once
  mutable std::atomic<std::byte*> spare_{nullptr};  // memory of an earlier run
};

}  // namespace distwrap::mesh

#endif  // DISTWRAP_SRC_MESH_PREPARED_H_
