#include "sample.h"

#include "covering.h"

#include <algorithm>
#include <functional>

namespace distwrap::conformance {
namespace {

constexpr size_t kCounts[] = {0, 1, 3, 1023, 1024, 4095, 4097, 1 << 20};
constexpr int kRanks = 8;  // roots and empty ranks, modulo the size

// Every promised combination of the dependent dimensions.
void for_all_promised(const Promises& promises,
                      const std::function<void(const Case&)>& use) {
  for_all_sensible([&](const Case& c) {
    if (promises.has(c)) use(c);
  });
}

// The columns of the rows: dependent ones, then independent ones.
enum { kKind, kDtype, kReduce, kForm, kPlace, kCalling, kBound };
enum { kCount = kBound, kSize, kRoot, kOdd, kEmpty };

}  // namespace

std::vector<Case> sampled_cases(const Promises& promises, const Limits& limits,
                                int size) {
  std::vector<Row> bound;
  for_all_promised(promises, [&](const Case& c) {
    // An exclusive scan counts as a kind of its own here.
    bound.push_back({c.exclusive ? 0 : c.kind, c.dtype, c.reduce,
                     static_cast<int>(c.form), c.in_place ? 1 : 0,
                     static_cast<int>(c.calling)});
  });
  const std::vector<int> free = {static_cast<int>(std::size(kCounts)),
                                 static_cast<int>(limits.sizes.size()), kRanks,
                                 2, kRanks};
  std::vector<Case> cases;
  size_t salt = 0;
  for (const Row& row : covering_rows(bound, free, limits.seed)) {
    ++salt;
    if (limits.sizes[static_cast<size_t>(row[kSize])] != size) continue;
    Case c;
    c.exclusive = row[kKind] == 0;
    c.kind = static_cast<uint16_t>(c.exclusive ? DW_OP_SCAN : row[kKind]);
    c.dtype = row[kDtype];
    c.reduce = static_cast<uint16_t>(row[kReduce]);
    c.form = static_cast<Form>(row[kForm]);
    c.in_place = row[kPlace] != 0;
    c.calling = static_cast<Calling>(row[kCalling]);
    c.count = std::min(kCounts[row[kCount]], limits.largest);
    c.root = row[kRoot];
    c.odd = row[kOdd] != 0;
    c.empty = row[kEmpty];
    c.salt = salt;
    cases.push_back(c);
  }
  // Pairs of dimensions do not bring each kind in place together with elements.
  uint16_t last = DW_OP_BARRIER;
  for_all_promised(promises, [&](const Case& promised) {
    if (!promised.in_place || promised.kind == last) return;
    last = promised.kind;
    Case c = promised;
    c.count = std::min(size_t{1023}, limits.largest);
    c.salt = ++salt;
    cases.push_back(c);
  });
  return cases;
}

std::vector<Case> all_cases(const Promises& promises, int size) {
  std::vector<Case> cases;
  size_t turn = 0;
  for_all_promised(promises, [&](const Case& promised) {
    if (promised.calling != Calling::kWaits) return;
    for (const size_t count : kCounts) {
      // Small buffers use all roots; large ones use one root in turn.
      const bool all_roots = shape_of(promised.kind).rooted && count < 5000;
      for (int root = 0; root < (all_roots ? size : 1); ++root) {
        Case c = promised;
        ++turn;
        c.count = count;
        c.root = all_roots ? root : static_cast<int>(turn);
        c.calling = static_cast<Calling>(turn / 3 % kCallings);
        if (!promises.has(c)) c.calling = promised.calling;
        c.odd = turn / 2 % 2 != 0;
        c.empty = static_cast<int>(turn / 5 % kRanks);
        c.salt = turn;
        cases.push_back(c);
      }
    }
  });
  return cases;
}

std::vector<Case> one_of_each(const Promises& promises, size_t count,
                              Calling calling) {
  std::vector<Case> cases;
  for_all_promised(promises, [&](Case c) {
    if (c.calling != calling || c.in_place) return;
    const auto same = [&c](const Case& other) {
      return other.kind == c.kind && other.form == c.form &&
             other.exclusive == c.exclusive;
    };
    c.count = count;
    c.salt = cases.size();
    const auto found = std::find_if(cases.begin(), cases.end(), same);
    if (found == cases.end())
      cases.push_back(c);
    else if (c.dtype == DW_DTYPE_F32 && found->dtype != DW_DTYPE_F32)
      *found = c;
  });
  return cases;
}

}  // namespace distwrap::conformance
