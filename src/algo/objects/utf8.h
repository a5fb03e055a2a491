// Checks whether bytes are UTF-8 text.
#ifndef DISTWRAP_SRC_ALGO_OBJECTS_UTF8_H_
#define DISTWRAP_SRC_ALGO_OBJECTS_UTF8_H_

#include <absl/strings/string_view.h>

namespace distwrap::objects {

// Whether bytes are well-formed UTF-8: shortest forms, no surrogates, nothing
// above U+10FFFF.
bool is_utf8(absl::string_view bytes);

// Removes an incomplete character from the end of UTF-8 that was cut.
absl::string_view whole_characters(absl::string_view text);

}  // namespace distwrap::objects

#endif  // DISTWRAP_SRC_ALGO_OBJECTS_UTF8_H_
