// The registered types of the program, by C++ type and by name.
//
// Threads: any. Ownership: rows are counted and stay until the process ends.
#ifndef DISTWRAP_SRC_ALGO_OBJECTS_TYPES_H_
#define DISTWRAP_SRC_ALGO_OBJECTS_TYPES_H_

#include "distwrap/object.h"

namespace distwrap::objects {

inline constexpr size_t kMaxTypeName = 255;

struct RegisteredType {
  std::string name;
  internal::ObjectWriter write;
  internal::ObjectReader read;

  // Exceptions of the program's functions become errors.
  absl::StatusOr<std::string> write_value(const void* value) const;
  absl::StatusOr<Object> read_value(absl::string_view bytes) const;
};

// Null when the type is not registered.
const RegisteredType* find_type(std::type_index type);
const RegisteredType* find_type(absl::string_view name);

// The text for people: the registered name, else the C++ name.
std::string type_text(std::type_index type);

}  // namespace distwrap::objects

#endif  // DISTWRAP_SRC_ALGO_OBJECTS_TYPES_H_
