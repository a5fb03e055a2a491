#include "distwrap/batch.h"

#include "base/exceptions.h"
#include "facade/batch_items.h"

namespace distwrap {

Batch::Batch() : items_(std::make_unique<facade::BatchItems>()) {}
Batch::~Batch() = default;
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;

Communicator& Batch::on(Communicator& communicator) {
  return items_->on(communicator);
}

absl::StatusOr<Work> Batch::submit() {
  return base::guarded("batch", [&] { return items_->submit(); });
}

absl::StatusOr<PreparedOperation> Batch::prepare() {
  return base::guarded("batch", [&] { return items_->prepare(); });
}

absl::StatusOr<Work> Batch::item(int i) const {
  return base::guarded("batch", [&] { return items_->item(i); });
}

const std::vector<Work>& Batch::works() const { return items_->works(); }

int Batch::size() const { return items_->size(); }

}  // namespace distwrap
