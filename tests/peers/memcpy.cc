#include "memcpy.h"

#include "bench/page_aligned.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

namespace distwrap::peers {
namespace {

class Memcpy final : public bench::Contestant {
 public:
  explicit Memcpy(std::string name) : name_(std::move(name)) {}

  std::string name() const override { return name_; }
  bool checked() const override { return false; }

  absl::StatusOr<std::unique_ptr<bench::TimedCall>> prepare(
      bench::Case& c) override {
    const auto bytes =
        static_cast<size_t>(std::max(c.in_bytes(), c.out_bytes()));
    if (bytes == 0) return std::unique_ptr<bench::TimedCall>();
    // Calls of several cases may exist at the same time.
    const std::shared_ptr<std::byte> from = bench::page_aligned(bytes);
    const std::shared_ptr<std::byte> to = bench::page_aligned(bytes);
    if (from == nullptr || to == nullptr)
      return absl::ResourceExhaustedError("no memory for a copy");
    std::memset(from.get(), 1, bytes);
    return bench::make_call([to, from, bytes] {
      std::memcpy(to.get(), from.get(), bytes);
      // Keeps the compiler from removing the unread copy.
      asm volatile("" : : "r"(to.get()) : "memory");
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
