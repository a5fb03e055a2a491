#include "store_under_test.h"

namespace distwrap::store {

struct StoreTest::State {
  std::shared_ptr<Store> shared = Store::in_memory();
};

StoreTest::StoreTest() : state_(std::make_unique<State>()) {}
StoreTest::~StoreTest() = default;

std::shared_ptr<Store> StoreTest::connect() { return state_->shared; }

std::string store_name(const ::testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::kInMemory ? "InMemory" : "Socket";
}

}  // namespace distwrap::store
