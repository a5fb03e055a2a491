// Hooks that count what a step sends, and refuse what exceeds its budget:
// docs/hooks.md.
#include <distwrap/distwrap.h>

#include <absl/strings/str_cat.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

int64_t bytes_of(const distwrap::HookedCall& call) {
  int64_t bytes = 0;
  for (const distwrap::TensorView& view : call.inputs)
    bytes += view.count() * distwrap::dtype_size(view.dtype());
  return bytes;
}

}  // namespace

int main() {
  const auto session = distwrap::init_process_group();
  if (!session.ok()) return 1;
  int64_t sent = 0;
  distwrap::Hooks budget;
  budget.pre = [&](const distwrap::HookedCall& call) {
    return sent + bytes_of(call) <= 5000
               ? absl::OkStatus()
               : absl::ResourceExhaustedError(
                     absl::StrCat("the step has sent ", sent, " bytes"));
  };
  budget.post = [&](const distwrap::HookedCall& call, const absl::Status& s) {
    if (s.ok()) sent += bytes_of(call);
  };
  // Rank 1 alone has the hook; a call that it refuses fails on all ranks.
  distwrap::Hook hook;
  if (session->rank() == 1) hook = *distwrap::add_hook({}, budget);

  std::vector<float> x(1024, 1);
  const auto first = distwrap::all_reduce(distwrap::TensorView(x));
  const auto second = distwrap::all_reduce(distwrap::TensorView(x));
  const auto error = distwrap::error_info(second.status());
  if (!first.ok() || !error) return 1;
  std::puts(session->rank() == 1 ? error->what.c_str() : "failed by rank 1");
  if (session->rank() != 1 && error->ranks != std::vector<int>{1}) return 1;
  return distwrap::destroy_process_group().ok() ? 0 : 1;
}
