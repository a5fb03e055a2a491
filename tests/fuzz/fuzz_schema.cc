// Schemas of operators: any text is refused or read, and what was read prints
// as a text that reads as the same schema.
#include "distwrap/schema.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto schema = distwrap::Schema::parse(text);
  if (!schema.ok()) return 0;
  const auto again = distwrap::Schema::parse(schema->text());
  if (!again.ok() || again->text() != schema->text()) std::abort();
  return 0;
}
