#include "comm/first_failure.h"

#include "base/error.h"

#include <utility>

namespace distwrap::comm {
FirstFailure::FirstFailure(std::shared_ptr<Store> store, std::string key)
    : store_(std::move(store)), key_(std::move(key)) {}

absl::StatusOr<ErrorInfo> FirstFailure::agree(const ErrorInfo& mine,
                                              absl::Duration patience) {
  const absl::StatusOr<std::string> first = store_->compare_set(
      key_, "", base::encode_error(mine), Deadline::after(patience));
  if (!first.ok()) return first.status();
  return base::decode_error(*first).value_or(mine);
}

}  // namespace distwrap::comm
