#include "group/instances.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <iterator>
#include <utility>

namespace distwrap::group {
namespace {

// The hint of backends that listen in a network.
constexpr char kAddress[] = "address";

}  // namespace

absl::StatusOr<std::shared_ptr<comm::BackendInstance>> Instances::open(
    const std::string& backend, Device device, const comm::Hints& hints) {
  absl::StatusOr<plugin::BackendPtr> table = registry_.find(backend);
  if (!table.ok()) return table.status();
  comm::Hints own = comm::hints_known_to({*table}, hints);
  const bool tuned = tuning_.add_hint(*table, &own);
  // A program that names an interface means that one.
  if (!address_.empty() && own.count("interface") == 0 &&
      !comm::hints_known_to({*table}, {{kAddress, ""}}).empty())
    own.emplace(kAddress, address_);
  base::MutexLock lock(mutex_);
  for (auto it = opened_.begin(); it != opened_.end();)
    it = it->second.expired() ? opened_.erase(it) : std::next(it);
  std::weak_ptr<comm::BackendInstance>& place =
      opened_[{absl::StrCat((*table)->origin(), " ", (*table)->name()),
               device.type, device.id, own}];
  if (std::shared_ptr<comm::BackendInstance> shared = place.lock())
    return shared;
  absl::StatusOr<std::shared_ptr<comm::BackendInstance>> opened =
      comm::BackendInstance::open(
          *std::move(table), device, own,
          trace_.empty() ? "" : absl::StrCat(trace_, traces_++, ".jsonl"));
  if (opened.ok()) {
    place = *opened;
  } else if (tuned) {
    return base::amend_error(opened.status(), [this](ErrorInfo& info) {
      absl::StrAppend(&info.what, "; DISTWRAP_TUNING is ", tuning_.path());
    });
  }
  return opened;
}

absl::StatusOr<std::vector<plugin::BackendPtr>> Instances::tables(
    const std::vector<BackendChoice>& choices) {
  std::vector<plugin::BackendPtr> found;
  for (const BackendChoice& choice : choices) {
    absl::StatusOr<plugin::BackendPtr> table = registry_.find(choice.backend);
    if (!table.ok()) return table.status();
    found.push_back(*std::move(table));
  }
  return found;
}

}  // namespace distwrap::group
