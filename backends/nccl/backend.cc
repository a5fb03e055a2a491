// Opening and closing an instance.
#include "backend.h"

#include "promises.h"
#include "sdk/fail.h"
#include "sdk/guard.h"
#include "sdk/read_op.h"

#include <chrono>
#include <string>

namespace nccl_backend {
namespace {

// How long `close` waits for the ends of communicators.
constexpr std::chrono::seconds kEndsPatience{2};

// Like dw_read_open, which serves host memory.
int32_t read_open(dw_open_info* info, const dw_open_info* given,
                  dw_error* error) {
  const int32_t code = dw_read_struct(info, static_cast<uint32_t>(sizeof *info),
                                      given, DW_OPEN_INFO_SIZE_1_0);
  if (code != DW_OK)
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the open info has a size or a field that is not known");
  if (info->device_type != DW_DEVICE_CUDA)
    return dw_unsupported(error, "nccl: only memory of CUDA is supported");
  if (dw_check_extensions(info->next) != DW_OK)
    return dw_unsupported(error, "nccl: no extension is supported");
  return DW_OK;
}

void log(const Backend& backend, int level, const std::string& text) {
  backend.host->log(backend.host->self, level, {text.data(), text.size()});
}

}  // namespace

int32_t open(const dw_host_api* host, const dw_open_info* given,
             dw_backend** backend, dw_error* error) {
  dw_open_info info = {};
  if (int32_t code = read_open(&info, given, error)) return code;
  return dw_sdk::guarded("nccl: the backend", error, [&]() -> int32_t {
    auto made = std::make_unique<Backend>();
    made->host = host;
    if (int32_t code =
            read_hints(info.hints, info.n_hints, &made->hints, error))
      return code;
    const std::string& driver_file = made->hints.cuda_driver;
    const std::string& nccl_file = made->hints.nccl_library;
    Driver driver;
    if (int32_t code = open_driver(
            driver_file.empty() ? kDriverName : driver_file, &driver, error))
      return code;
    if (int32_t code = open_nccl(nccl_file.empty() ? kNcclName : nccl_file,
                                 &made->nccl, error))
      return code;
    if (int32_t code =
            Device::open(driver, info.device_id, &made->device, error))
      return code;
    made->rows = rows_of(made->nccl.version, made->device->capability());
    made->watch = std::make_unique<Watch>(made.get());
    if (int32_t code = made->watch->start(error)) return code;
    int driver_version = 0;
    driver.cuDriverGetVersion(&driver_version);
    log(*made, DW_LOG_DEBUG,
        "nccl: NCCL " + version_text(made->nccl.version) +
            " on a driver of CUDA " + std::to_string(driver_version / 1000) +
            "." + std::to_string(driver_version % 1000 / 10));
    *backend = reinterpret_cast<dw_backend*>(made.release());
    return DW_OK;
  });
}

void close(dw_backend* backend) {
  const size_t left = of(backend)->endings.wait_for_all(kEndsPatience);
  if (left != 0)
    log(*of(backend), DW_LOG_WARNING,
        "nccl: " + std::to_string(left) +
            " communicators do not end; they are left behind");
  delete of(backend);
}

int32_t caps(dw_backend* backend, const dw_caps_row** rows, uint64_t* n_rows,
             dw_error* /*error*/) {
  *rows = of(backend)->rows.data();
  *n_rows = of(backend)->rows.size();
  return DW_OK;
}

int32_t progress(dw_backend* backend) { return of(backend)->watch->look(); }

}  // namespace nccl_backend
