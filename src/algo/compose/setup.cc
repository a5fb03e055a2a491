// A communicator is built in the rounds of the backend below.
#include "algo/compose/setup.h"

#include "algo/compose/table.h"
#include "algo/compose/window.h"
#include "algo/decorator.h"
#include "sdk/guard.h"

#include <memory>
#include <new>

namespace distwrap::algo::compose {

int32_t BelowSetup::begin(const dw_setup_info& info, dw_blob* out,
                          dw_error* error) {
  base::MutexLock lock(backend_.calls());
  return backend_.inner().setup_begin(backend_.inner_backend(), &info, &setup_,
                                      out, error);
}

int32_t BelowSetup::begin_window(dw_comm* comm, const dw_setup_info& info,
                                 dw_blob* out, dw_error* error) {
  base::MutexLock lock(backend_.calls());
  return backend_.inner().window_create(comm, &info, &setup_, out, error);
}

int32_t BelowSetup::step(const dw_blob* in, uint64_t n, dw_blob* out,
                         dw_setup_result* result, dw_error* error) {
  base::MutexLock lock(backend_.calls());
  return backend_.inner().setup_step(setup_, in, n, out, result, error);
}

void BelowSetup::cancel() {
  base::MutexLock lock(backend_.calls());
  backend_.inner().setup_cancel(setup_);
}

namespace {

// The setup of a communicator, or of a window that the backend below has.
class HandedOnSetup final : public Setup {
 public:
  HandedOnSetup(Backend& backend, int rank, int size)
      : backend_(backend), below_(backend), rank_(rank), size_(size) {}

  BelowSetup& below() { return below_; }
  int32_t step(const dw_blob* in, uint64_t n, dw_blob* out,
               dw_setup_result* result, dw_error* error) override {
    dw_setup_result built = {};
    const int32_t code = below_.step(in, n, out, &built, error);
    return code == DW_DONE ? hand_up(built, result, error) : code;
  }
  void cancel() override { below_.cancel(); }

 private:
  // Turns the result into the one that the host above gets. DW_DONE, or the
  // result is destroyed.
  int32_t hand_up(const dw_setup_result& built, dw_setup_result* result,
                  dw_error* error) {
    const int32_t code = dw_sdk::guarded("a group", error, [&] {
      if (built.window != nullptr)
        *result = {nullptr, (new Window(backend_, built.window))->abi()};
      else
        *result = {(new Comm(backend_, built.comm, rank_, size_))->abi(),
                   nullptr};
      return DW_DONE;
    });
    if (code == DW_DONE) return code;
    if (built.window != nullptr) {
      backend_.inner().window_destroy(built.window, 0, nullptr);
    } else {
      backend_.inner().comm_abort(built.comm, error);
      backend_.inner().comm_destroy(built.comm, 0, nullptr);
    }
    return code;
  }

  Backend& backend_;
  BelowSetup below_;
  const int rank_, size_;
};

}  // namespace

int32_t setup_begin(dw_backend* opened, const dw_setup_info* info,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  Backend& backend = Backend::of(opened);
  dw_setup_info read;
  if (int32_t code = read_setup(&read, info, error); code != DW_OK) return code;
  if (read.parent != nullptr) read.parent = Comm::of(read.parent).inner();
  return dw_sdk::guarded("a group", error, [&]() -> int32_t {
    auto made = std::make_unique<HandedOnSetup>(backend, read.rank, read.size);
    if (int32_t code = made->below().begin(read, out, error)) return code;
    *setup = made.release()->abi();
    return DW_OK;
  });
}

int32_t window_create(dw_comm* of, const dw_setup_info* info, dw_setup** setup,
                      dw_blob* out, dw_error* error) {
  Comm& comm = Comm::of(of);
  Backend& backend = comm.backend();
  dw_setup_info read;
  if (int32_t code =
          dw_read_struct(&read, sizeof read, info, DW_SETUP_INFO_SIZE_1_0))
    return fail(error, code, DW_REASON_INVALID_ARGUMENT,
                "the setup info has a size or a field that is not known");
  if (!backend.has_windows())
    return begin_window(comm, read, setup, out, error);
  read.parent = comm.inner();
  return dw_sdk::guarded("a window", error, [&]() -> int32_t {
    auto made =
        std::make_unique<HandedOnSetup>(backend, comm.rank(), comm.size());
    if (int32_t code =
            made->below().begin_window(comm.inner(), read, out, error))
      return code;
    *setup = made.release()->abi();
    return DW_OK;
  });
}

int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error) {
  Setup* const step = &Setup::of(setup);
  const int32_t code = step->step(in, n, out, result, error);
  if (code != DW_OK) delete step;
  return code;
}

void setup_cancel(dw_setup* setup) {
  Setup* const cancelled = &Setup::of(setup);
  cancelled->cancel();
  delete cancelled;
}

}  // namespace distwrap::algo::compose
