#include "info/backend_rows.h"

#include "algo/reduce_kernels.h"
#include "base/error.h"
#include "distwrap/deadline.h"
#include "sdk/moe_rows.h"

#include <absl/strings/str_cat.h>

#include <new>
#include <string.h>
#include <string>

namespace distwrap::cli {
namespace {

// A host without communicators, in which no operation ever completes. It keeps
// what is logged.
dw_host_api host_without_work(std::vector<std::string>* notes) {
  return {
      .struct_size = sizeof(dw_host_api),
      .abi_major = DW_ABI_MAJOR,
      .abi_minor = DW_ABI_MINOR,
      .self = notes,
      .complete = [](dw_work*, int32_t, const dw_error*) {},
      .log =
          [](void* self, int32_t, dw_str text) {
            static_cast<std::vector<std::string>*>(self)->emplace_back(
                text.data, text.size);
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
      .extension = [](void*, dw_str id, uint32_t) -> const void* {
        return absl::string_view(id.data, id.size) == DW_EXT_MOE_SUM
                   ? &algo::row_sums()
                   : nullptr;
      },
      .under_way = nullptr,
      .waits = nullptr,
      .begun = nullptr,
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

// A communicator of one rank; null where the backend makes none.
dw_comm* comm_of_one(const dw_backend_api& api, dw_backend* backend) {
  const int32_t host = 0;
  dw_setup_info info{};
  info.struct_size = sizeof info;
  info.flags = DW_SETUP_COMMUNICATOR;
  info.size = 1;
  info.uid = 1;
  info.epoch = 1;
  info.host_of = &host;
  info.deadline_ns = Deadline::after(absl::Seconds(5)).ns();
  dw_setup* setup = nullptr;
  dw_blob blob{};
  dw_error error{};
  dw_setup_result result{};
  int32_t code = api.setup_begin(backend, &info, &setup, &blob, &error);
  while (code == DW_OK) {
    const std::string text(static_cast<const char*>(blob.data), blob.size);
    const dw_blob back{text.data(), text.size(), blob.fds, blob.n_fds};
    blob = {};
    code = api.setup_step(setup, &back, 1, &blob, &result, &error);
  }
  return code == DW_DONE ? result.comm : nullptr;
}

// Asks about an exchange without rows, and about one without sums.
void ask_for_rows(const dw_backend_api& api, dw_backend* backend,
                  BackendPromises* promises) {
  dw_comm* const comm = comm_of_one(api, backend);
  if (comm == nullptr) return;
  const dw_moe_channel channel{nullptr, nullptr, sizeof(float), nullptr};
  const int64_t none = 0;
  dw_ext_moe lists{};
  lists.head = {sizeof lists, DW_EXT_REQUIRED, dw_sdk::kMoeId, nullptr};
  lists.channels = &channel;
  lists.n_channels = 1;
  lists.give_first = lists.get_first = &none;
  dw_ext_moe_sum sums{};
  sums.head = {sizeof sums, DW_EXT_REQUIRED, dw_sdk::kMoeSumId, nullptr};
  sums.in = sums.wire = sums.out = dw_dtype_of(DW_DTYPE_F32);
  sums.width = 1;
  sums.results.first = &none;
  dw_op op{};
  op.struct_size = sizeof op;
  op.kind = DW_OP_ALL_TO_ALL;
  op.flags = DW_FLAG_PER_RANK;
  op.peer = -1;
  op.in.dtype = op.out.dtype = dw_dtype_of(DW_DTYPE_U8);
  op.in.counts = op.out.counts = &none;
  op.stream.device_type = DW_DEVICE_CPU;
  op.next = &lists.head;
  promises->moves_rows = api.query(comm, &op, nullptr) == DW_OK;
  lists.head.next = &sums.head;
  promises->adds_rows = api.query(comm, &op, nullptr) == DW_OK;
  api.comm_destroy(comm, Deadline::after(absl::Seconds(5)).ns(), nullptr);
}

}  // namespace

int32_t device_type_of(const plugin::BackendTable& backend) {
  const uint32_t devices = backend.api().devices;
  if (devices == 0 || (devices & DW_BIT(DW_DEVICE_CPU)) != 0)
    return DW_DEVICE_CPU;
  return __builtin_ctz(devices);
}

absl::StatusOr<BackendPromises> backend_promises(
    const plugin::BackendTable& backend) {
  BackendPromises promises;
  const dw_host_api host = host_without_work(&promises.notes);
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
  if (code == DW_OK) {
    promises.rows.assign(rows, rows + n_rows);
    if (info.device_type == DW_DEVICE_CPU)
      ask_for_rows(backend.api(), opened, &promises);
  }
  backend.api().close(opened);
  if (code != DW_OK) return failed(backend, code, error);
  return promises;
}

}  // namespace distwrap::cli
