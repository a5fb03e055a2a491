// Prepared operations.
#include "call.h"
#include "docs.h"

#include <utility>

namespace nb = nanobind;
using namespace nb::literals;

namespace distwrap_python {
namespace {

using H = nb::handle;

// A prepared operation. What it uses is held until it is closed and no start is
// under way.
class PreparedOperation {
 public:
  PreparedOperation(distwrap_prepared taken, std::shared_ptr<Held> held,
                    nb::handle group)
      : handle_(taken), held_(std::move(held)), group_(nb::borrow(group)) {
    if (held_->parts.empty()) return;
    const Held& call = *held_->parts.front();
    if (call.reduction.has_value()) elements_ = call.reduction->elements();
  }
  PreparedOperation(const PreparedOperation&) = delete;
  PreparedOperation& operator=(const PreparedOperation&) = delete;
  ~PreparedOperation() { close(); }

  nb::object start(H output, H input, bool async_op, H timeout, H label) {
    constexpr const char* kCall = "start";
    // Another thread may close it while this one waits without the GIL.
    const distwrap_prepared handle = handle_;
    const std::shared_ptr<Held> held = held_;
    if (handle == nullptr)
      raise_value(kCall, "the prepared operation is closed",
                  "prepare another one");
    OperationCall call(kCall, nb::none(), async_op, timeout, label);
    const auto given = [&](H tensor, const char* name, Use use) {
      return tensor.is_none() ? nullptr
                              : call.tensor(tensor, name, use, elements_);
    };
    const distwrap_tensor* const out = given(output, "output", Use::kWritten);
    const distwrap_tensor* const in = given(input, "input", Use::kRead);
    if (async_op && out == nullptr && in == nullptr) call.use_buffers_of(held);
    return call.run_on(
        groups_of(group_), group_, [&](auto* o, auto* w, auto* e) {
          return distwrap_prepared_start(handle, out, in, o, w, e);
        });
  }

  void close() {
    const distwrap_prepared closing = std::exchange(handle_, nullptr);
    if (closing != nullptr) Free([&] { distwrap_prepared_free(closing); });
    held_.reset();
  }

 private:
  distwrap_prepared handle_;
  std::shared_ptr<Held> held_;
  const nb::object group_;
  // How the operation takes its tensors.
  Elements elements_ = Elements::kMoved;
};

}  // namespace

nb::object make_prepared(distwrap_prepared prepared, std::unique_ptr<Held> held,
                         nb::handle group) {
  return nb::cast(new PreparedOperation(prepared, std::move(held), group),
                  nb::rv_policy::take_ownership);
}

void add_prepared(nb::module_& m) {
  nb::class_<PreparedOperation>(m, "PreparedOperation",
                                nb::is_weak_referenceable(),
                                doc::PreparedOperation)
      .def("start", &PreparedOperation::start, "output"_a = nb::none(),
           "input"_a = nb::none(), nb::kw_only(), "async_op"_a = false,
           "timeout"_a = nb::none(), "label"_a = nb::none(),
           doc::PreparedOperation_start)
      .def("close", &PreparedOperation::close, doc::PreparedOperation_close)
      .def("__enter__", [](H self) { return nb::borrow(self); })
      .def(
          "__exit__", [](PreparedOperation& self, H, H, H) { self.close(); },
          "kind"_a.none(), "error"_a.none(), "traceback"_a.none());
}

}  // namespace distwrap_python
