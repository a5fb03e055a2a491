#include "group/hello.h"

#include "base/bytes.h"
#include "base/settings.h"

#include <absl/strings/str_cat.h>

#include <map>

namespace distwrap::group {
namespace {

constexpr size_t kMaxHelloText = 4096;

}  // namespace

std::string encode(const Hello& hello) {
  base::ByteWriter out;
  out.u64(hello.terms);
  out.i64(hello.pid);
  out.u64(hello.draw);
  out.text(hello.host);
  out.text(hello.handover);
  return out.take();
}

Hello decode(absl::string_view bytes) {
  base::ByteReader in(bytes);
  Hello hello;
  hello.terms = in.u64();
  hello.pid = in.i64();
  hello.draw = in.u64();
  hello.host = std::string(in.text(kMaxHelloText));
  hello.handover = std::string(in.text(kMaxHelloText));
  return in.done() ? hello : Hello{};
}

std::string terms_of_session(int world_size, absl::string_view backend) {
  return absl::StrCat("distwrap ", base::library_version(), ", world size ",
                      world_size, ", backend ", backend);
}

std::vector<int32_t> number_hosts(absl::Span<const comm::BoardOffer> offers) {
  std::map<absl::string_view, int32_t> numbers;
  int32_t next = 0;
  std::vector<int32_t> host_of;
  host_of.reserve(offers.size());
  for (const comm::BoardOffer& offer : offers) {
    const auto known = numbers.find(offer.host);
    if (!offer.host.empty() && known != numbers.end()) {
      host_of.push_back(known->second);
      continue;
    }
    numbers.emplace(offer.host, next);
    host_of.push_back(next++);
  }
  return host_of;
}

}  // namespace distwrap::group
