// Local shapes, offsets and indices as they were recorded.
#include "distwrap/layout.h"
#include "unit/layout/golden.h"

#include <gtest/gtest.h>

namespace distwrap::layout {
namespace {

TEST(LayoutGolden, ShapesOffsetsAndIndices) {
  int records = 0;
  each_record("layout.jsonl", [&](const Json& record) {
    const Layout* const layout = layout_of(record, "placements");
    ASSERT_NE(layout, nullptr);
    const std::vector<int64_t> shape = numbers(record.at("shape"));
    for (int64_t rank = 0; rank < layout->ranks(); ++rank) {
      const auto of_rank = [&](const Json& list) {
        return numbers(list.at(static_cast<size_t>(rank)));
      };
      ASSERT_EQ(*layout->local_shape(shape, rank),
                of_rank(record.at("local_shape")));
      ASSERT_EQ(*layout->offset(shape, rank), of_rank(record.at("offset")));
      if (!record.contains("strided_dims")) continue;
      const std::vector<int64_t> dims = numbers(record.at("strided_dims"));
      const Json& all = record.at("indices").at(static_cast<size_t>(rank));
      for (size_t i = 0; i < dims.size(); ++i)
        ASSERT_EQ(*layout->indices(shape, rank, static_cast<int>(dims[i])),
                  numbers(all.at(i)));
    }
    ++records;
  });
  EXPECT_EQ(records, 2284);
}

}  // namespace
}  // namespace distwrap::layout
