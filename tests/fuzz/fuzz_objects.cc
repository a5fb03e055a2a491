// Bytes of any origin are either refused with the right reason or equal the
// encoding of the decoded object.
#include "distwrap/object.h"
#include "distwrap/status.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void prove(absl::string_view bytes) {
  const absl::StatusOr<distwrap::Object> object =
      distwrap::decode_object(bytes);
  if (!object.ok()) {
    if (distwrap::error_reason(object.status()) !=
        distwrap::Reason::kObjectDecode)
      std::abort();
    return;
  }
  const absl::StatusOr<std::string> again = distwrap::encode_object(*object);
  if (!again.ok() || *again != bytes || !(*object == *object)) std::abort();
  if (object->to_string(100).size() > 103) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  prove(bytes);
  // With a valid head, so that the item is reached.
  std::string whole("DWOB\1\0\0\0", 8);
  const uint64_t body = size;
  whole.append(reinterpret_cast<const char*>(&body), sizeof body);
  whole.append(bytes.data(), bytes.size());
  prove(whole);
  return 0;
}
