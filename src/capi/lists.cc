// Lists of texts and bytes that calls return.
#include "capi/entry.h"
#include "distwrap/c.h"

#include <absl/strings/str_cat.h>

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)

uint64_t distwrap_list_size(distwrap_list list) {
  const auto found = find(list);
  return found ? found->size() : 0;
}

int32_t distwrap_list_item(distwrap_list list, uint64_t index,
                           distwrap_bytes* item, distwrap_error* error) {
  constexpr const char* kCall = "list_item";
  return entry(kCall, error, [&]() -> absl::Status {
    if (item == nullptr) return refuse_null(kCall, "item");
    const auto found = held(kCall, list);
    if (!found.ok()) return found.status();
    const List& texts = **found;
    if (index >= texts.size())
      return refuse(
          kCall,
          absl::StrCat("there is no item ", index, " among ", texts.size()),
          "count from 0 to distwrap_list_size - 1");
    *item = {texts[index].c_str(), texts[index].size()};
    return absl::OkStatus();
  });
}

int32_t distwrap_list_free(distwrap_list list) { return free_handle(list); }
