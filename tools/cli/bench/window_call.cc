#include "bench/window_call.h"

#include "distwrap/window.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace distwrap::bench {
namespace {

// `body(window)` is one call. Puts go into the windows, whose contents are
// spoiled and fetched; gets read contents that stay unchanged.
template <class Body>
class WindowCall final : public TimedCall {
 public:
  WindowCall(Case& c, Window window, bool lands, Body body)
      : case_(c),
        window_(std::move(window)),
        lands_(lands),
        body_(std::move(body)) {
    const TensorView first = lands ? c.out() : c.in();
    std::memcpy(window_.memory().data(), first.data(), bytes_of(first));
  }
  ~WindowCall() override {
    // A window that fails to end does not spoil the measurement.
    window_.destroy(absl::Seconds(1)).IgnoreError();
  }
  WindowCall(const WindowCall&) = delete;
  WindowCall& operator=(const WindowCall&) = delete;

  absl::Status repeat(int64_t times) override {
    for (int64_t i = 0; i < times; ++i) {
      absl::Status status = body_(window_);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Status spoil() override {
    if (lands_)
      std::memcpy(window_.memory().data(), case_.out().data(),
                  bytes_of(case_.out()));
    return absl::OkStatus();
  }
  absl::Status fetch() override {
    if (lands_)
      std::memcpy(case_.out().data(), window_.memory().data(),
                  bytes_of(case_.out()));
    return absl::OkStatus();
  }

 private:
  static size_t bytes_of(const TensorView& view) {
    return static_cast<size_t>(view.count() * dtype_size(view.dtype()));
  }

  Case& case_;
  const Window window_;
  const bool lands_;
  Body body_;
};

template <class Body>
std::unique_ptr<TimedCall> call_of(Case& c, Window window, bool lands,
                                   Body body) {
  return std::make_unique<WindowCall<Body>>(c, std::move(window), lands,
                                            std::move(body));
}

absl::Status put_all(const Window& window, TensorView in, Peer to, int times) {
  for (int i = 0; i < times; ++i)
    if (absl::Status status = window.put(in, to, 0).status(); !status.ok())
      return status;
  return window.flush(to).status();
}

// The partner's answer is the signal of the next round.
auto ping_pong(TensorView in, Peer peer, bool first) {
  return [in, peer, first, round = uint64_t{0}](const Window& window) mutable {
    ++round;
    absl::Status status;
    for (int half = 0; half < 2 && status.ok(); ++half)
      status = first == (half == 0)
                   ? window.put_signal(in, peer, 0, 0, round, SignalHow::kSet)
                         .status()
                   : window.wait_signal(0, Compare::kGe, round).status();
    return status;
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<TimedCall>> make_window_call(
    Case& c, const Group& group) {
  const Spec& spec = c.spec();
  if (spec.ranks < 2) return std::unique_ptr<TimedCall>();
  const TensorView in = c.in(), out = c.out();
  const absl::StatusOr<Window> window =
      new_window({.group = group,
                  .count = std::max(in.count(), out.count()),
                  .dtype = spec.dtype});
  if (!window.ok()) return window.status();
  const Peer right = Peer::group(c.right()), left = Peer::group(c.left());
  switch (spec.op) {
    case Operation::kWinPut:
      return call_of(c, *window, true,
                     [=](const Window& w) { return put_all(w, in, right, 1); });
    case Operation::kWinPutRate:
      return call_of(c, *window, true,
                     [=, depth = spec.depth](const Window& w) {
                       return put_all(w, in, right, depth);
                     });
    case Operation::kWinGet:
      return call_of(c, *window, false, [=](const Window& w) {
        return w.get(out, left, 0).status();
      });
    case Operation::kWinFetchAdd: {
      // Zeros are added, so that the fetched values are known.
      auto zeros = std::make_shared<std::vector<std::byte>>(
          static_cast<size_t>(c.in_bytes()));
      const TensorView nothing(zeros->data(), in.count(), spec.dtype);
      return call_of(c, *window, false, [=](const Window& w) {
        static_cast<void>(zeros);  // keeps them alive
        return w.fetch_op(out, nothing, left, 0, ReduceOp::kSum).status();
      });
    }
    default:
      return call_of(
          c, *window, true,
          ping_pong(in, Peer::group(c.partner()), spec.rank % 2 == 0));
  }
}

}  // namespace distwrap::bench
