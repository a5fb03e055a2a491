// Whether bytes are text.
#ifndef DISTWRAP_SRC_ALGO_OBJECTS_UTF8_H_
#define DISTWRAP_SRC_ALGO_OBJECTS_UTF8_H_

#include <absl/strings/string_view.h>

namespace distwrap::objects {

// Well-formed UTF-8: shortest forms, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(absl::string_view bytes);

// UTF-8 that was cut off somewhere, without the part of a character at its end.
absl::string_view whole_characters(absl::string_view text);

}  // namespace distwrap::objects

#endif  // DISTWRAP_SRC_ALGO_OBJECTS_UTF8_H_
