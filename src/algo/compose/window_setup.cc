// The rounds of a window that is made of messages. In the first round the ranks
// tell whether they have an active-message service already. Unless all have the
// same one, they build a communicator for it below, in that communicator's
// rounds. A window that only some ranks could make therefore leaves nothing
// that affects the next one.
#include "algo/compose/setup.h"
#include "algo/compose/window.h"
#include "algo/decorator.h"
#include "sdk/guard.h"

#include <cstring>
#include <memory>
#include <utility>

namespace distwrap::algo::compose {
namespace {

class WindowSetup final : public Setup {
 public:
  WindowSetup(Comm& comm, const dw_setup_info& info)
      : comm_(comm),
        below_(comm.backend()),
        info_(info),
        service_(comm.service()) {
    const dw_buf& memory = info.memory;
    part_ = std::make_shared<windows::Part>(
        info.uid, comm.rank(), comm.size(), memory.data,
        static_cast<uint64_t>(memory.count) * (memory.dtype.bits / 8u) *
            memory.dtype.lanes,
        info.signals);
    info_.flags = DW_SETUP_COMMUNICATOR;
    info_.memory = {};
    info_.signals = 0;
    info_.parent = nullptr;
    info_.parent_rank = nullptr;
    info_.next = nullptr;
    if (service_ != nullptr) has_ = service_->uid();
  }

  dw_blob word() const { return {&has_, sizeof has_, nullptr, 0}; }
  int32_t step(const dw_blob* in, uint64_t n, dw_blob* out,
               dw_setup_result* result, dw_error* error) override;
  void cancel() override {
    if (began_below_) below_.cancel();
  }

 private:
  bool all_have_one(const dw_blob* in, uint64_t n) const;
  // One round. `built` keeps the communicator below until a service takes it.
  int32_t take_step(const dw_blob* in, uint64_t n, dw_blob* out,
                    dw_setup_result* built, dw_setup_result* result,
                    dw_error* error);
  int32_t finish(dw_setup_result* result);

  Comm& comm_;
  BelowSetup below_;
  dw_setup_info info_;
  std::shared_ptr<windows::MessageService> service_;
  std::shared_ptr<windows::Part> part_;
  uint64_t has_ = 0;  // uid of the service that this rank has
  bool began_below_ = false;
};

bool WindowSetup::all_have_one(const dw_blob* in, uint64_t n) const {
  for (uint64_t rank = 0; rank < n; ++rank)
    if (in[rank].size != sizeof has_ ||
        std::memcmp(in[rank].data, &has_, sizeof has_) != 0)
      return false;
  return has_ != 0;
}

int32_t WindowSetup::finish(dw_setup_result* result) {
  auto* const window =
      new Window(comm_.backend(), std::move(service_), std::move(part_));
  *result = {nullptr, window->abi()};
  return DW_DONE;
}

int32_t WindowSetup::step(const dw_blob* in, uint64_t n, dw_blob* out,
                          dw_setup_result* result, dw_error* error) {
  dw_setup_result built = {};
  const int32_t code = dw_sdk::guarded("a window", error, [&] {
    return take_step(in, n, out, &built, result, error);
  });
  // The communicator that was built has no owner yet.
  if (built.comm != nullptr) {
    comm_.backend().inner().comm_abort(built.comm, error);
    comm_.backend().inner().comm_destroy(built.comm, 0, nullptr);
  }
  return code;
}

int32_t WindowSetup::take_step(const dw_blob* in, uint64_t n, dw_blob* out,
                               dw_setup_result* built, dw_setup_result* result,
                               dw_error* error) {
  if (!began_below_) {
    if (all_have_one(in, n)) return finish(result);
    if (comm_.size() > 1) {
      const int32_t code = below_.begin(info_, out, error);
      began_below_ = code == DW_OK;
      return code;
    }
  } else {
    const int32_t code = below_.step(in, n, out, built, error);
    if (code != DW_DONE) return code;
  }
  const auto service = std::make_shared<windows::MessageService>(
      comm_.backend(), built->comm,
      comm_.backend().recipes().message_carrier(DW_DTYPE_U8), comm_.rank(),
      comm_.size(), info_.uid);
  if (int32_t code = service->start(error)) return code;
  built->comm = nullptr;
  service_ = service;
  comm_.use(service);
  return finish(result);
}

}  // namespace

int32_t begin_window(Comm& comm, const dw_setup_info& info, dw_setup** setup,
                     dw_blob* out, dw_error* error) {
  if (!comm.backend().composes_windows())
    return unsupported(error, "only windows in host memory are composed");
  if (comm.size() > 1 && !comm.backend().has_messages())
    return unsupported(
        error, "the backend has no messages of which windows could be made");
  constexpr uint64_t kMostSignals = 65536;
  if (info.signals > kMostSignals)
    return unsupported(error, "a window has 65536 signals at most");
  return dw_sdk::guarded("a window", error, [&] {
    auto made = std::make_unique<WindowSetup>(comm, info);
    *out = made->word();
    *setup = made.release()->abi();
    return DW_OK;
  });
}

}  // namespace distwrap::algo::compose
