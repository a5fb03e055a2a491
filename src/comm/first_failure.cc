#include "comm/first_failure.h"

#include "base/error.h"

#include <utility>

namespace distwrap::comm {
namespace {

// Of the 100 ms that an error may come late.
constexpr absl::Duration kPatience = absl::Milliseconds(40);

}  // namespace

FirstFailure::FirstFailure(std::shared_ptr<Store> store, std::string key)
    : store_(std::move(store)), key_(std::move(key)) {}

ErrorInfo FirstFailure::agree(const ErrorInfo& mine) {
  const absl::StatusOr<std::string> first = store_->compare_set(
      key_, "", base::encode_error(mine), Deadline::after(kPatience));
  if (!first.ok()) return mine;
  return base::decode_error(*first).value_or(mine);
}

}  // namespace distwrap::comm
