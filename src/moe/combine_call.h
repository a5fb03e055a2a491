// moe_combine.
#ifndef DISTWRAP_SRC_MOE_COMBINE_CALL_H_
#define DISTWRAP_SRC_MOE_COMBINE_CALL_H_

#include "moe/call.h"
#include "moe/rows.h"

#include <absl/container/inlined_vector.h>

#include <optional>

namespace distwrap::moe {

class CombineCall final : public MoeCall {
 public:
  static std::optional<ErrorInfo> find_fault(PlanState& plan,
                                             const TensorView& y,
                                             const TensorView& out,
                                             const CombineOptions& options);

  // Checked arguments.
  CombineCall(std::shared_ptr<PlanState> plan, CallPlace place,
              const TensorView& y, const TensorView& out,
              const CombineOptions& options);

  absl::StatusOr<Work> second(bool async) override;
  void end() override;

 private:
  absl::StatusOr<Work> send_first(bool async) override;
  CallFacts facts() const override {
    return {1, static_cast<int64_t>(type_), stride_ + return_bytes_,
            static_cast<int64_t>(level_)};
  }
  // One hop: rows go from y, or as sums of its rows, and are added up where
  // they come in.
  absl::StatusOr<Work> move_rows(bool async);
  // Two hops: sums go to the forwarders' staging memory.
  absl::StatusOr<Work> send_sums(bool async);
  absl::StatusOr<Work> send_returns(bool async);
  // A program as a list of sums, with weights in `memory`.
  dw_moe_terms terms_of(const Program& program, std::vector<float>* memory);
  // The exchange whose results are the output.
  void add_results();
  void set_types();
  int64_t wire_row() const { return width_ * dtype_size(wire_); }

  const MoeDedup level_;
  const Moves& moves_;
  const ByteRows y_;
  const DType type_, out_type_;
  const ByteRows out_;
  const int64_t width_;
  const MoeWeighting weighting_;
  const bool by_slot_;
  const float* const weights_;
  DType wire_;      // type of rows that travel
  int64_t stride_;  // bytes that travel of a row
  absl::InlinedVector<const void*, 2> biases_;
  struct Return {
    ByteRows in, out;
    int64_t bytes;  // bytes of a value
  };
  absl::InlinedVector<Return, 2> returns_;
  int64_t return_bytes_ = 0;  // bytes of a pair
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_COMBINE_CALL_H_
