// The recorded layouts and redistributions of tests/golden/layout.
#ifndef DISTWRAP_TESTS_UNIT_LAYOUT_GOLDEN_H_
#define DISTWRAP_TESTS_UNIT_LAYOUT_GOLDEN_H_

#include "distwrap/layout.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace distwrap::layout {

using Json = nlohmann::json;

// Calls f(record) with each record of a file.
void each_record(const std::string& file,
                 const std::function<void(const Json&)>& f);

// The layout of record[key] and record[key + "_order"]. Null for placements
// that this library leaves out: norms, and sums with a mask.
const Layout* layout_of(const Json& record, const std::string& key);

std::vector<int64_t> numbers(const Json& list);

// The values of all ranks, as "packed locals" record them.
std::vector<std::vector<double>> unpacked(const Json& packed);

}  // namespace distwrap::layout

#endif  // DISTWRAP_TESTS_UNIT_LAYOUT_GOLDEN_H_
