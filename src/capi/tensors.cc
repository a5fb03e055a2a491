// Tensors of other libraries, and the names of element types.
#include "capi/entry.h"
#include "distwrap/c.h"
#include "distwrap/dlpack.h"

#include <memory>

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)

dw_dtype distwrap_dtype(int32_t dtype) {
  switch (dtype) {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  case index:                                                        \
    return {code, bits, 1};
#include "distwrap/abi/dtypes.def"
    default:
      return {0, 0, 0};  // every call refuses this type
  }
}

int32_t distwrap_tensor_of_dlpack(const distwrap_managed_tensor* managed,
                                  int32_t writable,
                                  const distwrap_tensor** tensor,
                                  distwrap_error* error) {
  constexpr const char* kCall = "tensor_of_dlpack";
  return entry(kCall, error, [&]() -> absl::Status {
    if (tensor == nullptr) return refuse_null(kCall, "tensor");
    *tensor = nullptr;
    if (managed == nullptr) return refuse_null(kCall, "managed");
    // Nothing behind the version may be read in another major version.
    if (managed->version.major != distwrap::dlpack::kMajor)
      return distwrap::internal::refuse_dlpack_version(managed->version.major,
                                                       managed->version.minor);
    const auto view =
        distwrap::view_of_dlpack(managed->dl_tensor, managed->flags);
    if (!view.ok()) return view.status();
    if (writable != 0 && view->read_only())
      return refuse(kCall, "the tensor is read-only",
                    "use it as an input only, or copy it");
    *tensor = &managed->dl_tensor;
    return absl::OkStatus();
  });
}

int32_t distwrap_dlpack_of_tensor(const distwrap_tensor* tensor,
                                  int32_t read_only, void* owner,
                                  void (*release)(void* owner),
                                  distwrap_managed_tensor** managed,
                                  distwrap_error* error) {
  constexpr const char* kCall = "dlpack_of_tensor";
  return entry(kCall, error, [&]() -> absl::Status {
    if (managed == nullptr) return refuse_null(kCall, "managed");
    *managed = nullptr;
    if (tensor == nullptr) return refuse_null(kCall, "tensor");
    const auto view = distwrap::view_of_dlpack(
        *tensor, read_only != 0 ? distwrap::dlpack::kReadOnly : 0);
    if (!view.ok()) return view.status();
    // The deleter calls `release`; a failed export does not.
    const auto armed = std::make_shared<bool>(false);
    const std::shared_ptr<void> kept(owner, [armed, release](void* held) {
      if (*armed && release != nullptr) release(held);
    });
    const auto made =
        distwrap::export_dlpack<distwrap_managed_tensor>(*view, kept);
    if (!made.ok()) return made.status();
    *armed = true;
    *managed = *made;
    return absl::OkStatus();
  });
}
