#include "distwrap/object.h"

#include "distwrap/status.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <thread>

namespace distwrap {
namespace {

using Kind = Object::Kind;

TEST(Objects, KindsAndWhatTheyHold) {
  EXPECT_EQ(Object().kind(), Kind::kNull);
  EXPECT_TRUE(Object(nullptr).is_null());
  EXPECT_EQ(Object(true).to_bool(), true);
  EXPECT_EQ(Object(7).to_int64(), 7);
  EXPECT_EQ(Object(int8_t{-7}).to_int64(), -7);
  EXPECT_EQ(Object(7u).to_uint64(), 7u);
  EXPECT_EQ(Object(0.5f).to_double(), 0.5);
  EXPECT_EQ(*Object("text").if_text(), "text");
  EXPECT_EQ(*Object(absl::string_view("text", 2)).if_text(), "te");
  EXPECT_EQ(*Object::bytes("text").if_bytes(), "text");
  EXPECT_EQ(Object::array({1, "two", nullptr}).size(), 3u);
  EXPECT_EQ(Object::tuple({1}).kind(), Kind::kTuple);
  EXPECT_EQ(Object::extension("n", "b").if_extension()->name, "n");
}

TEST(Objects, AnotherKindIsNothing) {
  const Object text("1");
  EXPECT_FALSE(text.to_bool().has_value());
  EXPECT_FALSE(text.to_int64().has_value());
  EXPECT_FALSE(text.to_uint64().has_value());
  EXPECT_FALSE(text.to_integer().has_value());
  EXPECT_FALSE(text.to_double().has_value());
  EXPECT_EQ(text.if_bytes(), nullptr);
  EXPECT_EQ(text.if_tensor(), nullptr);
  EXPECT_EQ(text.if_extension(), nullptr);
  EXPECT_EQ(text.if_a<int>(), nullptr);
  EXPECT_TRUE(text.items().empty());
  EXPECT_TRUE(text.entries().empty());
  EXPECT_EQ(Object(1).if_text(), nullptr);
  EXPECT_FALSE(Object(1).to_double().has_value());
  EXPECT_FALSE(Object(true).to_int64().has_value());
}

TEST(Objects, IntegersOfEverySize) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  const Object most(kMost), least(kLeast);
  EXPECT_EQ(most.kind(), Kind::kInteger);
  EXPECT_EQ(most.to_uint64(), kMost);
  EXPECT_FALSE(most.to_int64().has_value());
  EXPECT_EQ(least.to_int64(), kLeast);
  EXPECT_FALSE(least.to_uint64().has_value());
  EXPECT_EQ(least.to_integer()->magnitude,
            std::string("\x80\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(Object::integer(*least.to_integer()), least);
  EXPECT_EQ(Object::integer(*most.to_integer()), most);
  EXPECT_EQ(Object::integer({true, {}}), Object(0));
  EXPECT_EQ(Object::integer({false, std::string("\0\0\5", 3)}), Object(5));
  EXPECT_EQ(Object::integer({true, "\1"}), Object(-1));
  const Object big = Object::integer({true, std::string(20, 'x')});
  EXPECT_FALSE(big.to_uint64().has_value());
  EXPECT_EQ(big.to_integer()->magnitude.size(), 20u);
  EXPECT_NE(big, Object::integer({false, std::string(20, 'x')}));
}

TEST(Objects, MapsAreFoundByKey) {
  const Object map = Object::map({{"loss", 0.5},
                                  {3, "three"},
                                  {Object::tuple({1, 2}), true},
                                  {nullptr, 9}});
  EXPECT_EQ(map.size(), 4u);
  EXPECT_EQ(map.at("loss").to_double(), 0.5);
  EXPECT_EQ(*map.at(Object(3)).if_text(), "three");
  EXPECT_EQ(map.at(Object::tuple({1, 2})).to_bool(), true);
  EXPECT_EQ(map.find(Object())->to_int64(), 9);
  EXPECT_EQ(map.find(Object("absent")), nullptr);
  EXPECT_TRUE(map.at("absent").is_null());
  EXPECT_TRUE(map.at("absent").at(5).at("more").is_null());
  EXPECT_EQ(Object::array({4, 5}).at(1).to_int64(), 5);
  EXPECT_TRUE(Object::array({4, 5}).at(2).is_null());
}

TEST(Objects, EqualMeansKindAndContent) {
  EXPECT_EQ(Object(1), Object(1));
  EXPECT_NE(Object(1), Object(1.0));
  EXPECT_NE(Object(1), Object(true));
  EXPECT_NE(Object("a"), Object::bytes("a"));
  EXPECT_NE(Object::array({1}), Object::tuple({1}));
  EXPECT_NE(Object::array({1}), Object::array({1, 2}));
  EXPECT_NE(Object(0.0), Object(-0.0));
  EXPECT_EQ(Object(std::nan("1")), Object(std::nan("1")));
  EXPECT_NE(Object::extension("a", ""), Object::extension("b", ""));
  EXPECT_EQ(Object::map({{"a", 1}, {"b", 2}}),
            Object::map({{"b", 2}, {"a", 1}}));
  EXPECT_NE(Object::map({{"a", 1}, {"b", 2}}),
            Object::map({{"a", 2}, {"b", 1}}));
  EXPECT_NE(Object::map({{"a", 1}}), Object::map({{"b", 1}}));
}

TEST(Objects, CopiesShareAndOutliveEachOther) {
  Object copy;
  {
    const Object first = Object::array({"shared", Object::map({{1, 2}})});
    copy = first;
    EXPECT_EQ(copy.items().data(), first.items().data());
  }
  EXPECT_EQ(*copy.at(size_t{0}).if_text(), "shared");
  Object moved = std::move(copy);
  EXPECT_TRUE(copy.is_null());  // NOLINT(bugprone-use-after-move)
  copy = moved.at(1);
  moved = 5;
  EXPECT_EQ(copy.at(Object(1)).to_int64(), 2);
  Object& self = copy;
  copy = self;
  EXPECT_EQ(copy.size(), 1u);
}

TEST(Objects, ThreadsMayShareOne) {
  const Object shared = Object::array({"text", Object::array({1, 2})});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([shared] {
      for (int k = 0; k < 1000; ++k) {
        Object mine = shared;
        EXPECT_EQ(mine.at(1).at(1).to_int64(), 2);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// Deeper than any stack could hold.
TEST(Objects, DepthOfAnySizeIsHarmless) {
  const auto nested = [](int depth) {
    Object object(1);
    for (int i = 0; i < depth; ++i) object = Object::array({object});
    return object;
  };
  const Object a = nested(1000000), b = nested(1000000), c = nested(999999);
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a == c);
  EXPECT_LT(a.to_string().size(), 1100u);
  EXPECT_EQ(error_reason(encode_object(a).status()), Reason::kObjectType);
  Object key(1);
  for (int i = 0; i < 100000; ++i) key = Object::map({{key, 1}});
  const Object map = Object::map({{key, 1}, {2, 3}});
  EXPECT_TRUE(map == map);
  EXPECT_EQ(error_reason(encode_object(map).status()), Reason::kObjectType);
}

TEST(Objects, Tensors) {
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> shape = {2, 3};
  const absl::StatusOr<Object> object =
      Object::tensor(TensorView(x.data(), shape));
  ASSERT_TRUE(object.ok()) << object.status();
  const ObjectTensor& tensor = *object->if_tensor();
  EXPECT_EQ(tensor.shape, shape);
  const std::optional<TensorView> view = tensor.view();
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->dtype(), DType::kF32);
  EXPECT_EQ(view->shape(), absl::MakeConstSpan(shape));
  EXPECT_TRUE(view->read_only());
  EXPECT_EQ(static_cast<const float*>(view->data())[5], 6.0f);
  EXPECT_EQ(Object::tensor(TensorView(x))->if_tensor()->shape,
            std::vector<int64_t>{6});
  std::vector<int64_t> none;
  EXPECT_TRUE(Object::tensor(TensorView(none)).ok());
  // One element with no dimensions.
  const auto scalar = Object::tensor(TensorView(x.data(), none));
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  EXPECT_EQ(scalar->if_tensor()->bytes.size(), 4u);
  EXPECT_EQ(scalar->if_tensor()->view()->dims(), 0);

  const std::vector<int64_t> strides = {1, 2}, huge = {int64_t{1} << 62, 16};
  EXPECT_FALSE(Object::tensor(TensorView(x.data(), shape, strides)).ok());
  EXPECT_FALSE(Object::tensor(TensorView(x.data(), huge)).ok());
  EXPECT_FALSE(Object::tensor(TensorView(x.data(), -1)).ok());
  EXPECT_FALSE(
      Object::tensor(TensorView(x.data(), 6, DType::kF32, Device{2, 0})).ok());
  EXPECT_FALSE(
      Object::tensor(TensorView(x.data(), 6, static_cast<DType>(99))).ok());
  EXPECT_FALSE(Object::tensor(TensorView(nullptr, 6, DType::kF32)).ok());
  EXPECT_FALSE(
      (ObjectTensor{.shape = std::vector<int64_t>(65, 1), .bytes = "1234"})
          .view());
  EXPECT_FALSE(
      (ObjectTensor{.code = 77, .shape = {1}, .bytes = "1234"}).view());
  EXPECT_FALSE((ObjectTensor{.shape = {2}, .bytes = "1234"}).view());
}

TEST(Objects, Print) {
  const Object object = Object::map(
      {{"step", 12},
       {"loss", 0.5},
       {1.0, Object::tuple({true, nullptr})},
       {Object::tuple({1}), Object::bytes(std::string("a\1", 2))},
       {"t", Object::tensor(ObjectTensor{.shape = {1}, .bytes = "1234"})},
       {"e", Object::extension("point", "xy")},
       {"\u00fc\n", Object::integer({true, std::string(9, '\1')})}});
  EXPECT_EQ(object.to_string(),
            "{\"step\": 12, \"loss\": 0.5, 1.0: (true, null), "
            "(1,): b\"a\\x01\", \"t\": tensor<f32>[1], "
            "\"e\": extension \"point\" (2 bytes), "
            "\"\u00fc\\n\": -0x010101010101010101}");
  std::ostringstream out;
  out << Object::array({1, 2});
  EXPECT_EQ(out.str(), "[1, 2]");
}

TEST(Objects, PrintIsBounded) {
  const Object large(std::string(1 << 20, 'x'));
  EXPECT_EQ(large.to_string(5), "\"xxxx...");
  EXPECT_EQ(Object::array(Object::Items(100000, large)).to_string(10).size(),
            13u);
  // The cut does not divide a character.
  EXPECT_EQ(Object("\u6c34\u6c34").to_string(3), "\"...");
  EXPECT_EQ(Object("\u6c34\u6c34").to_string(4), "\"\u6c34...");
}

}  // namespace
}  // namespace distwrap
