#include "unit/layout/golden.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

namespace distwrap::layout {

void each_record(const std::string& file,
                 const std::function<void(const Json&)>& f) {
  std::ifstream in(std::string(GOLDEN) + file);
  ASSERT_TRUE(in.good()) << file;
  std::string line;
  while (std::getline(in, line)) {
    const Json record = Json::parse(line);
    SCOPED_TRACE(record.at("id").get<std::string>());
    f(record);
  }
}

const Layout* layout_of(const Json& record, const std::string& key) {
  MeshShape mesh{.sizes = numbers(record.at("mesh"))};
  std::string text;
  for (const Json& one : record.at(key)) {
    const std::string placement = one.get<std::string>();
    if (placement[0] == 'N' || placement[0] == 'M') return nullptr;
    text += (text.empty() ? "" : ",") + placement;
  }
  std::string order;
  if (record.contains(key + "_order"))
    for (const auto& [dim, axes] : record.at(key + "_order").items())
      order += (order.empty() ? " order=" : ",") + dim + ":" + axes.dump();
  const auto made = Layout::parse(mesh, text + order);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : nullptr;
}

std::vector<int64_t> numbers(const Json& list) {
  return list.get<std::vector<int64_t>>();
}

std::vector<std::vector<double>> unpacked(const Json& packed) {
  std::vector<std::vector<double>> ranks;
  for (const Json& index : packed.at("of")) {
    ranks.emplace_back();
    for (const Json& value : packed.at("vals").at(index.get<size_t>())) {
      if (!value.is_string())
        ranks.back().push_back(value.get<double>());
      else
        ranks.back().push_back(std::stod(value.get<std::string>()));
    }
  }
  return ranks;
}

}  // namespace distwrap::layout
