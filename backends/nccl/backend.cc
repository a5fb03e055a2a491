// Opening and closing an instance.
#include "backend.h"

#include "encryption.h"
#include "promises.h"
#include "sdk/fail.h"
#include "sdk/guard.h"
#include "sdk/read_op.h"
#include "window.h"

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

namespace nccl_backend {
namespace {

// How long `close` waits for the ends of communicators.
constexpr std::chrono::seconds kEndsPatience{2};
// How long it waits for the instance's thread, which may be inside NCCL.
constexpr std::chrono::seconds kThreadPatience{1};

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

// For `distwrap info --backend nccl`, and for the log.
void log_facts(const Backend& backend) {
  const Device& device = *backend.device;
  int driver = 0;
  device.driver().cuDriverGetVersion(&driver);
  const std::string number = std::to_string(device.ordinal());
  log(backend, DW_LOG_DEBUG,
      "NCCL " + version_text(backend.nccl.version) + " on a driver of CUDA " +
          std::to_string(driver / 1000) + "." +
          std::to_string(driver % 1000 / 10));
  std::string missing;
#define NCCL_OPTIONAL(type, name, parameters) \
  if (backend.nccl.name == nullptr) missing += " " #name;
#include "symbols.def"
  log(backend, DW_LOG_DEBUG,
      missing.empty() ? "this NCCL has everything that is used"
                      : "this NCCL lacks" + missing);
  log(backend, DW_LOG_DEBUG,
      backend.has_windows ? "windows on memory of the device are possible"
                          : "there are no windows on memory of the device, "
                            "which need NCCL 2.29.2 and a driver of CUDA 12.5");
  const char* const off = std::getenv("NCCL_MNNVL_ENABLE");
  log(backend, DW_LOG_DEBUG,
      "device " + number + ": NVLink between hosts (MNNVL) is " +
          (!device.exports_fabric()
               ? "not possible, the device exports no fabric handles"
           : off != nullptr && std::string_view(off) == "0"
               ? "switched off by NCCL_MNNVL_ENABLE=0"
               : "possible, the device exports fabric handles"));
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
    const std::string& key_file = made->hints.encryption_key_file;
    if (!key_file.empty())
      if (int32_t code = set_encryption(made->nccl, key_file, error))
        return code;
    if (int32_t code =
            Device::open(driver, info.device_id, &made->device, error))
      return code;
    int driver_version = 0;
    driver.cuDriverGetVersion(&driver_version);
    made->has_windows = has_windows(made->nccl, driver_version);
    made->rows = rows_of(made->nccl.version, made->device->capability());
    if (made->has_windows) made->rows.push_back(window_row());
    if (made->hints.register_memory == 0)
      for (dw_caps_row& row : made->rows) row.flags &= ~DW_FLAG_REGISTERED;
    made->watch = std::make_unique<Watch>(made.get());
    if (int32_t code = made->watch->start(error)) return code;
    log_facts(*made);
    *backend = reinterpret_cast<dw_backend*>(made.release());
    return DW_OK;
  });
}

void close(dw_backend* backend) {
  const size_t left = of(backend)->endings.wait_for_all(kEndsPatience);
  if (left != 0)
    log(*of(backend), DW_LOG_WARNING,
        left == 1 ? "1 communicator does not end and is left behind"
                  : std::to_string(left) +
                        " communicators do not end and are left behind");
  const dw_host_api* const host = of(backend)->host;
  if (of(backend)->watch->stop(kThreadPatience)) {
    delete of(backend);
    return;
  }
  // The thread frees the instance, perhaps already.
  constexpr std::string_view kText =
      "NCCL does not answer a question for errors; the thread that asks is "
      "left behind";
  host->log(host->self, DW_LOG_WARNING, {kText.data(), kText.size()});
}

int32_t caps(dw_backend* backend, const dw_caps_row** rows, uint64_t* n_rows,
             dw_error* /*error*/) {
  *rows = of(backend)->rows.data();
  *n_rows = of(backend)->rows.size();
  return DW_OK;
}

int32_t progress(dw_backend* backend) { return of(backend)->watch->look(); }

}  // namespace nccl_backend
