#include "plugin/backend_table.h"

#include "distwrap/abi/read.h"
#include "plugin/refusal.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string.h>
#include <type_traits>

namespace distwrap::plugin {
namespace {

constexpr uint64_t kMaxText = 256;
constexpr uint64_t kMaxHints = 1024;
constexpr uint32_t kKnownFlags = DW_BACKEND_HOST_WATCHES | DW_BACKEND_DECORATOR;

enum Slot {
#define DW_SLOT(name, required) kSlot_##name,
#include "plugin/slots.def"
};

constexpr absl::string_view kSlotNames[] = {
#define DW_SLOT(name, required) #name,
#include "plugin/slots.def"
};

void explain(dw_error* error, Slot slot) {
  if (error == nullptr) return;
  *error = {};
  error->code = DW_UNIMPLEMENTED;
  error->reason = DW_REASON_UNSUPPORTED;
  error->peer = -1;
  const std::string text =
      absl::StrCat("the backend does not have ", kSlotNames[slot]);
  text.copy(error->text, sizeof error->text - 1);
}

// The function in an empty slot. Its answer depends on the slot's type.
template <Slot kSlot, class... Args>
int32_t unimplemented(Args... args) {
  if constexpr (kSlot == kSlot_progress) {
    return 0;
  } else {
    const auto explain_to = [](auto arg) {
      if constexpr (std::is_same_v<decltype(arg), dw_error*>)
        explain(arg, kSlot);
    };
    (explain_to(args), ...);
    return DW_UNIMPLEMENTED;
  }
}
template <Slot kSlot, class... Args>
const void* unknown(Args...) {
  return nullptr;
}

template <Slot kSlot, class... Args>
void fill(int32_t (**slot)(Args...)) {
  if (*slot == nullptr) *slot = &unimplemented<kSlot, Args...>;
}
template <Slot kSlot, class... Args>
void fill(const void* (**slot)(Args...)) {
  if (*slot == nullptr) *slot = &unknown<kSlot, Args...>;
}
// Slots without a default answer are required.
template <Slot kSlot, class... Args>
void fill(void (**)(Args...)) {}

absl::Status check_required(const dw_backend_api& api,
                            absl::string_view origin) {
#define DW_SLOT(slot, required)                  \
  if (required && api.slot == nullptr)           \
    return refuse(Refusal::kMissingSlot, origin, \
                  {.about = std::string(kSlotNames[kSlot_##slot])});
#include "plugin/slots.def"
  return absl::OkStatus();
}

bool is_text(dw_str text) {
  return text.size <= kMaxText && (text.data != nullptr || text.size == 0);
}

absl::string_view view(dw_str text) {
  return absl::string_view(text.data, text.size);
}

absl::Status check_data(const dw_backend_api& api, absl::string_view origin) {
  const auto bad = [&](std::string about) {
    return refuse(Refusal::kBadTable, origin, {.about = std::move(about)});
  };
  if (api.name.data == nullptr || api.name.size == 0)
    return refuse(Refusal::kMissingSlot, origin, {.about = "name"});
  if (!is_text(api.name) || !is_backend_name(view(api.name)))
    return bad(
        absl::StrCat("name '",
                     absl::CHexEscape(absl::string_view(
                         api.name.data, std::min(api.name.size, uint64_t{64}))),
                     "' is not [a-z][a-z0-9_]*"));
  if (!is_text(api.version)) return bad("version");
  if (const uint32_t unknown = dw_unknown_flags(api.flags, kKnownFlags))
    return bad(absl::StrCat("unknown flags 0x", absl::Hex(unknown)));
  if (api.n_hints > kMaxHints || (api.hints == nullptr && api.n_hints != 0))
    return bad("list of hints");
  for (uint64_t i = 0; i < api.n_hints; ++i)
    if (!is_text(api.hints[i]) || api.hints[i].size == 0)
      return bad(absl::StrCat("hint ", i));
  return absl::OkStatus();
}

}  // namespace

bool is_backend_name(absl::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !name.empty() && name.size() <= 64 && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
         });
}

absl::StatusOr<BackendPtr> make_backend(const dw_backend_api* from,
                                        absl::string_view origin) {
  if (from == nullptr) return refuse(Refusal::kNoTable, origin);
  // The version and the size have the same place in every version of the table.
  if (from->abi_major != DW_ABI_MAJOR)
    return refuse(
        Refusal::kWrongAbi, origin,
        {.expected = absl::StrCat("major ", DW_ABI_MAJOR),
         .actual = absl::StrCat(from->abi_major, ".", from->abi_minor)});
  const uint32_t size = from->struct_size;
  if (size < DW_BACKEND_API_SIZE_1_0)
    return refuse(
        Refusal::kBadTable, origin,
        {.about = "struct_size",
         .expected = absl::StrCat("at least ", DW_BACKEND_API_SIZE_1_0),
         .actual = absl::StrCat(size)});
  const std::shared_ptr<BackendTable> table(new BackendTable);
  dw_backend_api& api = table->api_;
  memcpy(&api, from, std::min<size_t>(size, sizeof api));
  api.struct_size = sizeof api;
  if (absl::Status status = check_required(api, origin); !status.ok())
    return status;
  if (absl::Status status = check_data(api, origin); !status.ok())
    return status;
  table->has_progress_ = api.progress != nullptr;
  table->has_memory_ = api.mem_alloc != nullptr;
#define DW_SLOT(slot, required) fill<kSlot_##slot>(&api.slot);
#include "plugin/slots.def"
  table->name_ = std::string(view(api.name));
  table->version_ = std::string(view(api.version));
  table->origin_ = std::string(origin);
  api.name.data = table->name_.data();
  api.version = {table->version_.data(), table->version_.size()};
  return BackendPtr(table);
}

}  // namespace distwrap::plugin
