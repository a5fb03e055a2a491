#include "algo/objects/utf8.h"

#include <cstddef>
#include <cstdint>

namespace distwrap::objects {

bool is_utf8(absl::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const auto at = [&](size_t k) { return static_cast<uint8_t>(bytes[k]); };
    const uint8_t lead = at(i++);
    if (lead < 0x80) continue;
    // The number of following bytes, and the range of the first of them.
    size_t more = 0;
    uint8_t least = 0x80, most = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
      more = 1;
    } else if (lead >= 0xe0 && lead <= 0xef) {
      more = 2;
      if (lead == 0xe0) least = 0xa0;
      if (lead == 0xed) most = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
      more = 3;
      if (lead == 0xf0) least = 0x90;
      if (lead == 0xf4) most = 0x8f;
    } else {
      return false;
    }
    if (more > bytes.size() - i) return false;
    for (; more > 0; --more, ++i, least = 0x80, most = 0xbf)
      if (at(i) < least || at(i) > most) return false;
  }
  return true;
}

absl::string_view whole_characters(absl::string_view text) {
  for (size_t back = 1; back <= 4 && back <= text.size(); ++back) {
    const uint8_t byte = static_cast<uint8_t>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const size_t size = byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return size > back ? text.substr(0, text.size() - back) : text;
  }
  return text;
}

}  // namespace distwrap::objects
