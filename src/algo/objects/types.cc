#include "algo/objects/types.h"

#include "algo/objects/utf8.h"
#include "base/error.h"
#include "base/mutex.h"

#include <absl/strings/str_cat.h>

#include <cstdlib>
#include <cxxabi.h>
#include <exception>
#include <functional>
#include <map>

namespace distwrap {
namespace objects {
namespace {

struct Types {
  base::Mutex mutex;
  std::map<std::type_index, const RegisteredType*> by_type
      ABSL_GUARDED_BY(mutex);
  std::map<std::string, const RegisteredType*, std::less<>> by_name
      ABSL_GUARDED_BY(mutex);
};

Types& types() {
  static Types* const kTypes = new Types;  // outlives threads
  return *kTypes;
}

template <class Result, class Body>
Result guarded(const Body& call) {
  try {
    return call();
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("it threw: ", e.what()));
  } catch (...) {
    return absl::InternalError("it threw");
  }
}

}  // namespace

absl::StatusOr<std::string> RegisteredType::write_value(
    const void* value) const {
  return guarded<absl::StatusOr<std::string>>([&] { return write(value); });
}

absl::StatusOr<Object> RegisteredType::read_value(
    absl::string_view bytes) const {
  return guarded<absl::StatusOr<Object>>([&] { return read(bytes); });
}

const RegisteredType* find_type(std::type_index type) {
  base::MutexLock lock(types().mutex);
  const auto found = types().by_type.find(type);
  return found == types().by_type.end() ? nullptr : found->second;
}

const RegisteredType* find_type(absl::string_view name) {
  base::MutexLock lock(types().mutex);
  const auto found = types().by_name.find(std::string(name));
  return found == types().by_name.end() ? nullptr : found->second;
}

std::string type_text(std::type_index type) {
  if (const RegisteredType* const known = find_type(type)) return known->name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : type.name();
}

}  // namespace objects

absl::Status internal::register_object_type(std::type_index type,
                                            std::string name,
                                            ObjectWriter write,
                                            ObjectReader read) {
  const auto refuse = [](std::string what, std::string next_step) {
    return base::make_error({.reason = Reason::kInvalidArgument,
                             .what = std::move(what),
                             .op = "register_object_type",
                             .next_step = std::move(next_step)});
  };
  if (name.empty() || name.size() > objects::kMaxTypeName ||
      !objects::is_utf8(name))
    return refuse(absl::StrCat("the name of an object type is not 1 to ",
                               objects::kMaxTypeName, " bytes of UTF-8"),
                  "give a short name, equal on all ranks");
  objects::Types& all = objects::types();
  base::MutexLock lock(all.mutex);
  if (all.by_type.count(type) != 0 || all.by_name.count(name) != 0)
    return refuse(absl::StrCat("object type '", name,
                               "' is registered already, by its name or its "
                               "C++ type"),
                  "register each type once, under a name of its own");
  const auto* const row = new objects::RegisteredType{
      std::move(name), std::move(write), std::move(read)};
  all.by_type.emplace(type, row);
  all.by_name.emplace(row->name, row);
  return absl::OkStatus();
}

}  // namespace distwrap
