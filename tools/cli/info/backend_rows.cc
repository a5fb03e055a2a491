#include "info/backend_rows.h"

#include "algo/reduce_kernels.h"
#include "base/error.h"
#include "base/log.h"
#include "distwrap/deadline.h"

#include <absl/strings/str_cat.h>

#include <new>
#include <string.h>

namespace distwrap::cli {
namespace {

// A host without communicators, in which no operation ever completes.
dw_host_api host_without_work() {
  return {
      .struct_size = sizeof(dw_host_api),
      .abi_major = DW_ABI_MAJOR,
      .abi_minor = DW_ABI_MINOR,
      .self = nullptr,
      .complete = [](dw_work*, int32_t, const dw_error*) {},
      .log =
          [](void*, int32_t, dw_str text) {
            base::log(base::LogLevel::kInfo,
                      absl::string_view(text.data, text.size));
          },
      .now_ns = [](void*) { return Deadline::now_ns(); },
      .wake = [](void*) {},
      .scratch_alloc =
          [](void*, uint64_t bytes) {
            return ::operator new(bytes, std::align_val_t(64), std::nothrow);
          },
      .scratch_free =
          [](void*, void* memory) {
            ::operator delete(memory, std::align_val_t(64));
          },
      .reduce_kernel =
          [](void*, dw_dtype dtype, uint16_t reduce) {
            return algo::reduce_kernel(dtype, reduce);
          },
      .extension = [](void*, dw_str, uint32_t) -> const void* {
        return nullptr;
      },
      .under_way = nullptr,
      .waits = nullptr,
  };
}

absl::Status failed(const plugin::BackendTable& backend, int32_t code,
                    const dw_error& error) {
  return base::make_error(
      {.reason = Reason::kBackendFailed,
       .what = absl::StrCat("backend ", backend.name(), " cannot be asked"),
       .cause = absl::StrCat(
           "code ", code, ": ",
           absl::string_view(error.text,
                             strnlen(error.text, sizeof error.text)))});
}

}  // namespace

int32_t device_type_of(const plugin::BackendTable& backend) {
  const uint32_t devices = backend.api().devices;
  if (devices == 0 || (devices & DW_BIT(DW_DEVICE_CPU)) != 0)
    return DW_DEVICE_CPU;
  return __builtin_ctz(devices);
}

absl::StatusOr<std::vector<dw_caps_row>> backend_rows(
    const plugin::BackendTable& backend) {
  const dw_host_api host = host_without_work();
  const dw_open_info info{.struct_size = sizeof(dw_open_info),
                          .flags = 0,
                          .device_type = device_type_of(backend),
                          .device_id = 0,
                          .hints = nullptr,
                          .n_hints = 0,
                          .inner = nullptr,
                          .n_inner = 0,
                          .next = nullptr};
  dw_backend* opened = nullptr;
  dw_error error{};
  int32_t code = backend.api().open(&host, &info, &opened, &error);
  if (code != DW_OK) return failed(backend, code, error);
  const dw_caps_row* rows = nullptr;
  uint64_t n_rows = 0;
  code = backend.api().caps(opened, &rows, &n_rows, &error);
  // The rows belong to the instance, so they are copied before it closes.
  const std::vector<dw_caps_row> copy =
      code == DW_OK ? std::vector<dw_caps_row>(rows, rows + n_rows)
                    : std::vector<dw_caps_row>();
  backend.api().close(opened);
  if (code != DW_OK) return failed(backend, code, error);
  return copy;
}

}  // namespace distwrap::cli
