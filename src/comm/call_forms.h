// The methods of a Communicator, each written once so that it makes a Call; the
// derived class decides what happens to the Call.
//
//   template <uint16_t kKind, class Form>
//   StatusOr<Work> run(const Form&, const CallOptions&);
//       a plain call (Call) or one with counts (DividedCall)
//   StatusOr<Work> run_any(uint16_t kind, const AnyCall&, const CallOptions&);
//       lists and scans
//
// The methods are not inlined: a derived class may instantiate them in one file
// only.
#ifndef DISTWRAP_SRC_COMM_CALL_FORMS_H_
#define DISTWRAP_SRC_COMM_CALL_FORMS_H_

#include "comm/op_check.h"
#include "distwrap/communicator.h"

namespace distwrap::comm {

template <class Derived>
class CallForms : public Communicator {
 public:
  using Result = absl::StatusOr<Work>;

  [[gnu::noinline]] Result barrier(const CallOptions& options) override {
    return self().template run<DW_OP_BARRIER>(Call(), options);
  }

  [[gnu::noinline]] Result broadcast(TensorView out, TensorView in, int root,
                                     const CallOptions& options) override {
    return self().template run<DW_OP_BROADCAST>(
        Call{.out = out, .in = at_root(in, root), .peer = root}, options);
  }

  [[gnu::noinline]] Result reduce(TensorView out, TensorView in, int root,
                                  ReduceOp op,
                                  const CallOptions& options) override {
    return self().template run<DW_OP_REDUCE>(Call{.reduce = op.kind(),
                                                  .out = at_root(out, root),
                                                  .in = in,
                                                  .peer = root,
                                                  .op = op},
                                             options);
  }

  [[gnu::noinline]] Result all_reduce(TensorView out, TensorView in,
                                      ReduceOp op,
                                      const CallOptions& options) override {
    return self().template run<DW_OP_ALL_REDUCE>(
        Call{.reduce = op.kind(), .out = out, .in = in, .op = op}, options);
  }

  [[gnu::noinline]] Result gather(TensorView out, TensorView in, int root,
                                  const CallOptions& options) override {
    return self().template run<DW_OP_GATHER>(
        Call{.out = at_root(out, root), .in = in, .peer = root}, options);
  }

  [[gnu::noinline]] Result gather_v(TensorView out, TensorView in, int root,
                                    const Counts& out_counts,
                                    const CallOptions& options) override {
    return self().template run<DW_OP_GATHER>(
        DividedCall{{.out = at_root(out, root), .in = in, .peer = root},
                    counts_at_root(out_counts, root),
                    kNoCounts},
        options);
  }

  [[gnu::noinline]] Result scatter(TensorView out, TensorView in, int root,
                                   const CallOptions& options) override {
    return self().template run<DW_OP_SCATTER>(
        Call{.out = out, .in = at_root(in, root), .peer = root}, options);
  }

  [[gnu::noinline]] Result scatter_v(TensorView out, TensorView in, int root,
                                     const Counts& in_counts,
                                     const CallOptions& options) override {
    return self().template run<DW_OP_SCATTER>(
        DividedCall{{.out = out, .in = at_root(in, root), .peer = root},
                    kNoCounts,
                    counts_at_root(in_counts, root)},
        options);
  }

  [[gnu::noinline]] Result all_gather(TensorView out, TensorView in,
                                      const CallOptions& options) override {
    return self().template run<DW_OP_ALL_GATHER>(Call{.out = out, .in = in},
                                                 options);
  }

  [[gnu::noinline]] Result all_gather_v(TensorView out, TensorView in,
                                        const Counts& out_counts,
                                        const CallOptions& options) override {
    return self().template run<DW_OP_ALL_GATHER>(
        DividedCall{{.out = out, .in = in}, out_counts, kNoCounts}, options);
  }

  [[gnu::noinline]] Result reduce_scatter(TensorView out, TensorView in,
                                          ReduceOp op,
                                          const CallOptions& options) override {
    return self().template run<DW_OP_REDUCE_SCATTER>(
        Call{.reduce = op.kind(), .out = out, .in = in, .op = op}, options);
  }

  [[gnu::noinline]] Result reduce_scatter_v(
      TensorView out, TensorView in, const Counts& in_counts, ReduceOp op,
      const CallOptions& options) override {
    return self().template run<DW_OP_REDUCE_SCATTER>(
        DividedCall{{.reduce = op.kind(), .out = out, .in = in, .op = op},
                    kNoCounts,
                    in_counts},
        options);
  }

  [[gnu::noinline]] Result all_to_all(TensorView out, TensorView in,
                                      const CallOptions& options) override {
    return self().template run<DW_OP_ALL_TO_ALL>(Call{.out = out, .in = in},
                                                 options);
  }

  [[gnu::noinline]] Result all_to_all_v(TensorView out, TensorView in,
                                        const Counts& out_counts,
                                        const Counts& in_counts,
                                        const CallOptions& options) override {
    return self().template run<DW_OP_ALL_TO_ALL>(
        DividedCall{{.out = out, .in = in}, out_counts, in_counts}, options);
  }

  [[gnu::noinline]] Result scan(TensorView out, TensorView in, ReduceOp op,
                                const CallOptions& options) override {
    return self().run_any(
        DW_OP_SCAN, {{.reduce = op.kind(), .out = out, .in = in, .op = op}, {}},
        options);
  }

  [[gnu::noinline]] Result exscan(TensorView out, TensorView in, ReduceOp op,
                                  const CallOptions& options) override {
    return self().run_any(
        DW_OP_SCAN,
        {{.reduce = op.kind(), .out = out, .in = in, .op = op},
         {.exclusive = true}},
        options);
  }

  [[gnu::noinline]] Result send(TensorView in, int peer, int64_t tag,
                                const CallOptions& options) override {
    return self().template run<DW_OP_SEND>(
        Call{.in = in, .peer = peer, .tag = tag}, options);
  }

  [[gnu::noinline]] Result recv(TensorView out, int peer, int64_t tag,
                                const CallOptions& options) override {
    return self().template run<DW_OP_RECV>(
        Call{.out = out, .peer = peer, .tag = tag}, options);
  }

  [[gnu::noinline]] Result gather(absl::Span<const TensorView> outs,
                                  TensorView in, int root,
                                  const CallOptions& options) override {
    return self().run_any(DW_OP_GATHER,
                          {{.in = in, .peer = root},
                           {.lists = true, .outs = at_root(outs, root)}},
                          options);
  }

  [[gnu::noinline]] Result scatter(TensorView out,
                                   absl::Span<const TensorView> ins, int root,
                                   const CallOptions& options) override {
    return self().run_any(DW_OP_SCATTER,
                          {{.out = out, .peer = root},
                           {.lists = true, .ins = at_root(ins, root)}},
                          options);
  }

  [[gnu::noinline]] Result all_gather(absl::Span<const TensorView> outs,
                                      TensorView in,
                                      const CallOptions& options) override {
    return self().run_any(DW_OP_ALL_GATHER,
                          {{.in = in}, {.lists = true, .outs = outs}}, options);
  }

  [[gnu::noinline]] Result reduce_scatter(TensorView out,
                                          absl::Span<const TensorView> ins,
                                          ReduceOp op,
                                          const CallOptions& options) override {
    return self().run_any(DW_OP_REDUCE_SCATTER,
                          {{.reduce = op.kind(), .out = out, .op = op},
                           {.lists = true, .ins = ins}},
                          options);
  }

  [[gnu::noinline]] Result all_to_all(absl::Span<const TensorView> outs,
                                      absl::Span<const TensorView> ins,
                                      const CallOptions& options) override {
    return self().run_any(DW_OP_ALL_TO_ALL,
                          {{}, {.lists = true, .outs = outs, .ins = ins}},
                          options);
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }

  static constexpr Counts kNoCounts = {};

  // Counts are read on the root only; other ranks' are ignored.
  const Counts& counts_at_root(const Counts& given, int root) {
    return root == self().rank() ? given : kNoCounts;
  }
  template <class T>
  T at_root(const T& given, int root) {
    return root == self().rank() ? given : T();
  }
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_CALL_FORMS_H_
