#include "gloo_store.h"

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <stdexcept>
#include <utility>

namespace distwrap::peers {
namespace {

void throw_unless_ok(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

}  // namespace

GlooStore::GlooStore(std::shared_ptr<distwrap::Store> store, std::string prefix,
                     absl::Duration timeout)
    : store_(std::move(store)), prefix_(std::move(prefix)), timeout_(timeout) {}

void GlooStore::set(const std::string& key, const std::vector<char>& data) {
  throw_unless_ok(store_->set(prefix_ + key,
                              absl::string_view(data.data(), data.size()),
                              Deadline::after(timeout_)));
}

std::vector<char> GlooStore::get(const std::string& key) {
  const auto value = store_->get(prefix_ + key, Deadline::after(timeout_));
  throw_unless_ok(value.status());
  return {value->begin(), value->end()};
}

void GlooStore::wait(const std::vector<std::string>& keys) {
  wait(keys, absl::ToChronoMilliseconds(timeout_));
}

void GlooStore::wait(const std::vector<std::string>& keys,
                     const std::chrono::milliseconds& timeout) {
  std::vector<std::string> prefixed;
  prefixed.reserve(keys.size());
  for (const std::string& key : keys) prefixed.push_back(prefix_ + key);
  throw_unless_ok(
      store_->wait(prefixed, Deadline::after(absl::FromChrono(timeout))));
}

}  // namespace distwrap::peers
