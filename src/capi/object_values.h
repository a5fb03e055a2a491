// Objects of C programs, value by value.
//
// Threads: one at a time; each object has a mutex, so that a program that does
// otherwise gets wrong objects and no wrong memory.
#ifndef DISTWRAP_SRC_CAPI_OBJECT_VALUES_H_
#define DISTWRAP_SRC_CAPI_OBJECT_VALUES_H_

#include "base/mutex.h"
#include "distwrap/c_types.h"
#include "distwrap/object.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::capi {

// Builds one object of values, each container before what is inside.
class ObjectWriter {
 public:
  absl::Status put(const distwrap_value& value);
  // The bytes of the object, which has to be complete; begins another one.
  absl::StatusOr<std::string> take();

 private:
  // A container that lacks some of its items; a map has twice its entries.
  struct Open {
    int32_t kind;
    uint64_t wanted;
    Object::Items items;
  };
  void close_full() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  std::vector<Open> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<Object> done_ ABSL_GUARDED_BY(mutex_);  // at most one
};

// Gives the values of an object.
class ObjectReader {
 public:
  explicit ObjectReader(Object object)
      : object_(std::move(object)), left_{&object_} {}
  // Texts and bytes live as long as the reader.
  distwrap_value next();

 private:
  base::Mutex mutex_;
  const Object object_;
  // Parts of the object that are still to be read, the next one last.
  std::vector<const Object*> left_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> magnitudes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::capi

#endif  // DISTWRAP_SRC_CAPI_OBJECT_VALUES_H_
