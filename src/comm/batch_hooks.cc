#include "comm/batch_hooks.h"

#include "base/error.h"

#include <map>
#include <set>
#include <utility>

namespace distwrap::comm {

BatchHooks::BatchHooks(absl::Span<const BackendCommunicator::BatchItem> items)
    : items_(items), shown_(items.size()) {
  std::map<const HookList*, uint64_t> ids;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto& hooks = items[i].communicator->hooks();
    if (hooks == nullptr || !hooks->wanted()) continue;
    const auto [id, is_new] = ids.try_emplace(hooks.get(), 0);
    if (is_new) {
      auto batch = std::make_shared<HookRun>(hooks);
      batch->call().op = "batch";
      batch->call().async = true;
      batch->call().items = items.size();
      id->second = batch->call().id;
      batches_.push_back(std::move(batch));
    }
    shown_[i] = std::make_shared<HookRun>(hooks);
    items[i].communicator->show(*items[i].prepared, *shown_[i]);
    shown_[i]->call().async = true;
    shown_[i]->call().batch = id->second;
  }
}

absl::Status BatchHooks::pre() {
  for (const auto& batch : batches_)
    if (absl::Status refused = batch->pre(); !refused.ok())
      return refuse(*batch, refused);
  for (const auto& item : shown_) {
    if (item == nullptr) continue;
    if (absl::Status refused = item->pre(); !refused.ok())
      return refuse(*item, refused);
  }
  return absl::OkStatus();
}

absl::Status BatchHooks::refuse(const HookRun& by,
                                const absl::Status& refused) {
  const ErrorInfo info = by.refusal(refused);
  std::set<BackendCommunicator*> told;
  for (const BackendCommunicator::BatchItem& item : items_)
    if (told.insert(item.communicator).second)
      item.communicator->refused_by_hook(info);
  absl::Status error = base::make_error(info);
  post_all(error);
  return error;
}

void BatchHooks::post_all(const absl::Status& status) {
  for (size_t i = 0; i < shown_.size(); ++i) {
    if (shown_[i] == nullptr) continue;
    shown_[i]->call().seq = items_[i].prepared->op.seq;
    shown_[i]->post(status);
  }
  for (const auto& batch : batches_) batch->post(status);
}

void BatchHooks::post(const absl::StatusOr<std::vector<Work>>& works) {
  if (batches_.empty()) return;
  post_all(works.status());
  if (!works.ok()) return;
  for (size_t i = 0; i < shown_.size(); ++i)
    if (shown_[i] != nullptr) shown_[i]->completes((*works)[i]);
  const Work whole = Work::all(*works);
  for (const auto& batch : batches_) batch->completes(whole);
}

}  // namespace distwrap::comm
