#include "raw_gloo.h"

#include "gloo_store.h"

#include <absl/strings/str_cat.h>
#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace distwrap::peers {
namespace {

using bench::Case;
using bench::Operation;
using bench::TimedCall;
using Reduce = void (*)(void*, const void*, const void*, size_t);

// Turns Gloo's exceptions into a status.
template <class F>
std::unique_ptr<TimedCall> call_of(F f) {
  return bench::make_call([f = std::move(f)] {
    try {
      f();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return absl::InternalError(error.what());
    }
  });
}

template <class T>
Reduce reduction(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProduct:
      return static_cast<Reduce>(&gloo::product<T>);
    case ReduceOp::kMin:
      return static_cast<Reduce>(&gloo::min<T>);
    case ReduceOp::kMax:
      return static_cast<Reduce>(&gloo::max<T>);
    default:
      return static_cast<Reduce>(&gloo::sum<T>);
  }
}

template <class T>
const gloo::ReductionFunction<T>* reduction_object(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProduct:
      return gloo::ReductionFunction<T>::product;
    case ReduceOp::kMin:
      return gloo::ReductionFunction<T>::min;
    case ReduceOp::kMax:
      return gloo::ReductionFunction<T>::max;
    default:
      return gloo::ReductionFunction<T>::sum;
  }
}

class RawGloo final : public bench::Contestant {
 public:
  RawGloo(std::string name, std::shared_ptr<gloo::rendezvous::Context> context)
      : name_(std::move(name)), context_(std::move(context)) {}

  std::string name() const override { return name_; }

  absl::StatusOr<std::unique_ptr<TimedCall>> prepare(Case& c) override {
    switch (c.spec().dtype) {
      case DType::kF32:
        return prepare_for<float>(c);
      case DType::kF64:
        return prepare_for<double>(c);
      case DType::kF16:
        return prepare_for<gloo::float16>(c);
      case DType::kI32:
        return prepare_for<int32_t>(c);
      case DType::kI64:
        return prepare_for<int64_t>(c);
      default:
        return std::unique_ptr<TimedCall>();
    }
  }

 private:
  template <class T>
  std::unique_ptr<TimedCall> prepare_for(const Case& c) {
    T* const in = static_cast<T*>(c.in().data());
    T* const out = static_cast<T*>(c.out().data());
    const auto in_count = static_cast<size_t>(c.in().count());
    const auto out_count = static_cast<size_t>(c.out().count());
    switch (c.spec().op) {
      case Operation::kBarrier: {
        auto options = std::make_shared<gloo::BarrierOptions>(context_);
        return call_of([=] { gloo::barrier(*options); });
      }
      case Operation::kAllReduce: {
        auto options = std::make_shared<gloo::AllreduceOptions>(context_);
        options->setInput(in, in_count);
        options->setOutput(out, out_count);
        options->setReduceFunction(reduction<T>(c.spec().reduce));
        options->setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
        return call_of([=] { gloo::allreduce(*options); });
      }
      case Operation::kAllGather: {
        auto options = std::make_shared<gloo::AllgatherOptions>(context_);
        options->setInput(in, in_count);
        options->setOutput(out, out_count);
        return call_of([=] { gloo::allgather(*options); });
      }
      case Operation::kReduceScatter:
        return reduce_scatter(c, in, in_count, out, out_count);
      case Operation::kBroadcast: {
        auto options = std::make_shared<gloo::BroadcastOptions>(context_);
        options->setOutput(out, out_count);
        options->setRoot(c.spec().root);
        return call_of([=] { gloo::broadcast(*options); });
      }
      case Operation::kAllToAll: {
        auto options = std::make_shared<gloo::AlltoallOptions>(context_);
        options->setInput(in, in_count);
        options->setOutput(out, out_count);
        return call_of([=] { gloo::alltoall(*options); });
      }
      case Operation::kReduce:
        return reduce(c, in, in_count, out);
      case Operation::kGather: {
        auto options = std::make_shared<gloo::GatherOptions>(context_);
        options->setInput(in, in_count);
        if (is_root(c)) options->setOutput(out, out_count);
        options->setRoot(c.spec().root);
        return call_of([=] { gloo::gather(*options); });
      }
      case Operation::kScatter: {
        auto options = std::make_shared<gloo::ScatterOptions>(context_);
        if (is_root(c)) {
          std::vector<T*> parts;
          for (int r = 0; r < c.spec().ranks; ++r)
            parts.push_back(in + static_cast<size_t>(r) * out_count);
          options->setInputs(parts, out_count);
        }
        options->setOutput(out, out_count);
        options->setRoot(c.spec().root);
        return call_of([=] { gloo::scatter(*options); });
      }
      case Operation::kAllGatherV: {
        auto options = std::make_shared<gloo::AllgathervOptions>(context_);
        const std::vector<int64_t>& counts = c.layout().out_counts;
        options->setInput(in, in_count);
        options->setOutput(out,
                           std::vector<size_t>(counts.begin(), counts.end()));
        return call_of([=] { gloo::allgatherv(*options); });
      }
      case Operation::kAllToAllV: {
        auto options = std::make_shared<gloo::AlltoallvOptions>(context_);
        options->setInput(in, c.layout().in_counts);
        options->setOutput(out, c.layout().out_counts);
        return call_of([=] { gloo::alltoallv(*options); });
      }
      case Operation::kSendRecv:
        return ping_pong(c);
      default:
        return nullptr;
    }
  }

  static bool is_root(const Case& c) { return c.spec().rank == c.spec().root; }

  // Gloo requires an output on every rank; its content is lost on ranks other
  // than the root.
  template <class T>
  std::unique_ptr<TimedCall> reduce(const Case& c, T* in, size_t count,
                                    T* out) {
    auto work = std::make_shared<std::vector<T>>(is_root(c) ? 0 : count);
    auto options = std::make_shared<gloo::ReduceOptions>(context_);
    options->setInput(in, count);
    options->setOutput(is_root(c) ? out : work->data(), count);
    options->setReduceFunction(reduction<T>(c.spec().reduce));
    options->setRoot(c.spec().root);
    return call_of([=] {
      static_cast<void>(work);  // kept as long as the options
      gloo::reduce(*options);
    });
  }

  // Gloo has only halving and doubling, in place. The copies belong to the cost
  // of this operation, which leaves its input unchanged.
  template <class T>
  std::unique_ptr<TimedCall> reduce_scatter(const Case& c, const T* in,
                                            size_t in_count, T* out,
                                            size_t out_count) {
    auto work = std::make_shared<std::vector<T>>(in_count);
    const std::vector<int> counts(static_cast<size_t>(c.spec().ranks),
                                  static_cast<int>(out_count));
    auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<T>>(
        context_, std::vector<T*>{work->data()}, static_cast<int>(in_count),
        counts, reduction_object<T>(c.spec().reduce));
    return call_of([=] {
      std::copy_n(in, in_count, work->data());
      algorithm->run();
      std::copy_n(work->data(), out_count, out);
    });
  }

  std::unique_ptr<TimedCall> ping_pong(const Case& c) {
    if (c.spec().ranks < 2) return nullptr;
    constexpr uint64_t kSlot = uint64_t{1} << 60;  // far from Gloo's own slots
    const int peer = c.partner();
    std::shared_ptr<gloo::transport::UnboundBuffer> from =
        context_->createUnboundBuffer(c.in().data(),
                                      static_cast<size_t>(c.in_bytes()));
    std::shared_ptr<gloo::transport::UnboundBuffer> to =
        context_->createUnboundBuffer(c.out().data(),
                                      static_cast<size_t>(c.out_bytes()));
    const auto send = [=] {
      from->send(peer, kSlot);
      from->waitSend();
    };
    const auto recv = [=] {
      to->recv(peer, kSlot);
      to->waitRecv();
    };
    if (c.spec().rank % 2 == 0) {
      return call_of([=] {
        send();
        recv();
      });
    }
    return call_of([=] {
      recv();
      send();
    });
  }

  std::string name_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<bench::Contestant>> make_raw_gloo(
    const bench::Setup& setup) {
  try {
    gloo::transport::tcp::attr attributes;
    const auto interface = setup.hints.find("interface");
    attributes.iface =
        interface == setup.hints.end() ? "lo" : interface->second;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    GlooStore store(setup.store, absl::StrCat("peers/", setup.name, "/"),
                    setup.timeout);
    auto context =
        std::make_shared<gloo::rendezvous::Context>(setup.rank, setup.ranks);
    context->setTimeout(absl::ToChronoMilliseconds(setup.timeout));
    context->connectFullMesh(store, device);
    return std::make_unique<RawGloo>(setup.name, std::move(context));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat(setup.name, " cannot connect: ", error.what()));
  }
}

}  // namespace distwrap::peers
