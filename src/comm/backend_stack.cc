#include "comm/backend_stack.h"

#include "comm/op_shape.h"

#include <algorithm>
#include <utility>

namespace distwrap::comm {

BackendStack::BackendStack(plugin::BackendPtr engine) {
  layers_.push_back(std::move(engine));
}

BackendStack::~BackendStack() {
  if (backend_ != nullptr) api().close(backend_);
}

void BackendStack::push(plugin::BackendPtr decorator) {
  layers_.insert(layers_.begin(), std::move(decorator));
}

int32_t BackendStack::open(const dw_host_api& host, dw_open_info info,
                           dw_error* error) {
  // A decorator need not ask a backend that completes its work by itself.
  dw_backend_api engine = this->engine()->api();
  if (!this->engine()->has_progress()) engine.progress = nullptr;
  std::vector<dw_inner> below;
  for (size_t i = 1; i + 1 < layers_.size(); ++i)
    below.push_back({&layers_[i]->api(), nullptr});
  if (layers_.size() > 1) below.push_back({&engine, nullptr});
  info.inner = below.empty() ? nullptr : below.data();
  info.n_inner = below.size();
  dw_backend* opened = nullptr;
  const int32_t code = api().open(&host, &info, &opened, error);
  if (code == DW_OK) backend_ = opened;
  return code;
}

bool BackendStack::all_have(uint32_t property) const {
  return std::all_of(layers_.begin(), layers_.end(), [&](const auto& layer) {
    return (layer->api().flags & property) != 0;
  });
}

BackendStack::Place BackendStack::descend(dw_comm* comm, dw_window* window,
                                          uint64_t ops) const {
  Place at{0, comm, window};
  while (at.layer + 1 < layers_.size() && ops != 0) {
    dw_pass pass = {};
    if (layers_[at.layer]->api().pass(at.comm, at.window, &pass) != DW_OK ||
        (ops & ~pass.ops) != 0)
      break;
    at = {at.layer + 1, pass.comm, pass.window};
  }
  return at;
}

Runner BackendStack::runner(dw_comm* comm, uint64_t ops) const {
  const Place at = descend(comm, nullptr, ops);
  const dw_backend_api& api = layers_[at.layer]->api();
  constexpr uint32_t kTells = DW_BACKEND_SAYS_WAITS | DW_BACKEND_SAYS_UNDER_WAY;
  uint32_t flags = api.flags;
  // Operations on windows end at their deadlines by themselves, since one that
  // is late breaks no group.
  if ((ops & ~kWindowOps) == 0) flags &= ~DW_BACKEND_HOST_WATCHES;
  // The host writes the trace of a call that it watches.
  if ((flags & DW_BACKEND_HOST_WATCHES) != 0) flags &= ~kTells;
  return {.submit = api.submit,
          .comm = at.comm,
          .flags = flags,
          .api = &api,
          .host_attends = (flags & DW_BACKEND_HOST_WATCHES) != 0};
}

dw_window* BackendStack::window(dw_comm* comm, dw_window* window,
                                uint64_t ops) const {
  return descend(comm, window, ops).window;
}

}  // namespace distwrap::comm
