// Texts of layouts, and plans between what they say. A text is refused, or its
// layout is the same object as that of its own text. A plan between two layouts
// of a small tensor is refused, or keeps what plans promise.
//
// The input: the number of axes, their sizes, the extents of the tensor, then
// two texts separated by a zero byte.
#include "distwrap/plan.h"

#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using distwrap::Layout;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// Small numbers, so that an input takes microseconds.
std::vector<int64_t> take(absl::string_view* bytes, size_t count, int64_t least,
                          int64_t most) {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < count && !bytes->empty(); ++i) {
    numbers.push_back(least + static_cast<uint8_t>(bytes->front()) %
                                  (most - least + 1));
    bytes->remove_prefix(1);
  }
  return numbers;
}

const Layout* read(const distwrap::MeshShape& mesh, absl::string_view text) {
  const auto layout = Layout::parse(mesh, text);
  if (!layout.ok()) return nullptr;
  const auto again = Layout::parse(mesh, (*layout)->text());
  require(again.ok() && *again == *layout, "a text is that of its layout");
  return *layout;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.empty()) return 0;
  const auto axes = static_cast<size_t>(bytes.front()) % 4 + 1;
  bytes.remove_prefix(1);
  const distwrap::MeshShape mesh{.sizes = take(&bytes, axes, 1, 3)};
  const std::vector<int64_t> shape = take(&bytes, 3, 0, 7);
  const std::vector<absl::string_view> texts =
      absl::StrSplit(bytes, absl::MaxSplits('\0', 1));
  const Layout* const from = read(mesh, texts[0]);
  const Layout* const to = texts.size() == 2 ? read(mesh, texts[1]) : nullptr;
  if (from == nullptr || to == nullptr) return 0;
  const auto plan = distwrap::make_plan(shape, 4, *from, *to);
  if (!plan.ok()) return 0;
  require(
      (*plan)->text() == (*distwrap::make_plan(shape, 4, *from, *to))->text(),
      "a plan is a function of its arguments");
  require((*plan)->floor() <= (*plan)->received(),
          "no plan receives less than the target lacks");
  require(from != to || (*plan)->steps().empty(),
          "nothing is to do between equal layouts");
  return 0;
}
