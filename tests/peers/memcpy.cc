#include "memcpy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace distwrap::peers {
namespace {

class Memcpy final : public bench::Contestant {
 public:
  explicit Memcpy(std::string name) : name_(std::move(name)) {}

  std::string name() const override { return name_; }
  bool checked() const override { return false; }

  absl::StatusOr<std::unique_ptr<bench::Call>> prepare(
      bench::Case& c) override {
    const auto bytes =
        static_cast<size_t>(std::max(c.in_bytes(), c.out_bytes()));
    if (bytes == 0) return std::unique_ptr<bench::Call>();
    // Calls on several cases may be held at once.
    auto from = std::make_shared<std::vector<std::byte>>(bytes, std::byte{1});
    auto to = std::make_shared<std::vector<std::byte>>(bytes, std::byte{2});
    return bench::make_call([to, from, bytes] {
      std::memcpy(to->data(), from->data(), bytes);
      // The copy is not to be left out as unread.
      asm volatile("" : : "r"(to->data()) : "memory");
      return absl::OkStatus();
    });
  }

 private:
  std::string name_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<bench::Contestant>> make_memcpy(
    const bench::Setup& setup) {
  return std::make_unique<Memcpy>(setup.name);
}

}  // namespace distwrap::peers
