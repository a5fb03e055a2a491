#include "group/instances.h"

#include <absl/strings/str_cat.h>

#include <iterator>
#include <utility>

namespace distwrap::group {

absl::StatusOr<std::shared_ptr<comm::BackendInstance>> Instances::open(
    const std::string& backend, Device device, const comm::Hints& hints) {
  absl::StatusOr<plugin::BackendPtr> table = registry_.find(backend);
  if (!table.ok()) return table.status();
  base::MutexLock lock(mutex_);
  for (auto it = opened_.begin(); it != opened_.end();)
    it = it->second.expired() ? opened_.erase(it) : std::next(it);
  std::weak_ptr<comm::BackendInstance>& place =
      opened_[{absl::StrCat((*table)->origin(), " ", (*table)->name()),
               device.type, device.id, hints}];
  if (std::shared_ptr<comm::BackendInstance> shared = place.lock())
    return shared;
  absl::StatusOr<std::shared_ptr<comm::BackendInstance>> opened =
      comm::BackendInstance::open(*std::move(table), device, hints);
  if (opened.ok()) place = *opened;
  return opened;
}

}  // namespace distwrap::group
