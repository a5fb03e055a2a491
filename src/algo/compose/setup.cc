// The rounds of a communicator are those of the backend below.
#include "algo/compose/table.h"
#include "algo/decorator.h"

#include <new>

namespace distwrap::algo::compose {
namespace {

struct Setup {
  Backend& backend;
  dw_setup* inner;
  int rank, size;
};

}  // namespace

int32_t setup_begin(dw_backend* opened, const dw_setup_info* info,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  Backend& backend = Backend::of(opened);
  dw_setup_info read;
  if (int32_t code = read_setup(&read, info, error); code != DW_OK) return code;
  if (read.parent != nullptr) read.parent = Comm::of(read.parent).inner();
  auto* const made =
      new (std::nothrow) Setup{backend, nullptr, read.rank, read.size};
  if (made == nullptr) return no_memory(error);
  int32_t code;
  {
    base::MutexLock lock(backend.calls());
    code = backend.inner().setup_begin(backend.inner_backend(), &read,
                                       &made->inner, out, error);
  }
  if (code != DW_OK) {
    delete made;
    return code;
  }
  *setup = reinterpret_cast<dw_setup*>(made);
  return DW_OK;
}

int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error) {
  auto* const step = reinterpret_cast<Setup*>(setup);
  Backend& backend = step->backend;
  dw_setup_result built = {};
  int32_t code;
  {
    base::MutexLock lock(backend.calls());
    code = backend.inner().setup_step(step->inner, in, n, out, &built, error);
  }
  if (code == DW_OK) return code;
  if (code == DW_DONE) {
    auto* const comm =
        new (std::nothrow) Comm(backend, built.comm, step->rank, step->size);
    if (comm != nullptr) {
      *result = {comm->abi(), nullptr};
    } else {
      code = no_memory(error);
      backend.inner().comm_abort(built.comm, error);
      backend.inner().comm_destroy(built.comm, 0, nullptr);
    }
  }
  delete step;
  return code;
}

void setup_cancel(dw_setup* setup) {
  auto* const cancelled = reinterpret_cast<Setup*>(setup);
  {
    base::MutexLock lock(cancelled->backend.calls());
    cancelled->backend.inner().setup_cancel(cancelled->inner);
  }
  delete cancelled;
}

}  // namespace distwrap::algo::compose
