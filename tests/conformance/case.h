// One call of a collective, the same on all ranks: the dimensions of the suite.
#ifndef DISTWRAP_TESTS_CONFORMANCE_CASE_H_
#define DISTWRAP_TESTS_CONFORMANCE_CASE_H_

#include "numbers.h"

#include <functional>
#include <string>

namespace distwrap::conformance {

// How a buffer of one piece per rank is given.
enum class Form : uint8_t {
  kPlain,       // equal pieces
  kCounts,      // packed, of uneven size
  kGaps,        // uneven, in another order, with gaps
  kParts,       // a list
  kPartCounts,  // a list of uneven sizes
};
inline constexpr int kForms = 5;

enum class Calling : uint8_t { kWaits, kAsync, kGroupWaits, kGroupAsync };
inline constexpr int kCallings = 4;

struct Case {
  uint16_t kind = 0;
  int dtype = DW_DTYPE_F32;
  uint16_t reduce = DW_REDUCE_NONE;
  bool exclusive = false;
  Form form = Form::kPlain;
  bool in_place = false;
  Calling calling = Calling::kWaits;
  size_t count = 0;  // elements per rank, the n of ops.def
  int root = 0;      // rank, modulo the size of the group
  bool odd = false;  // addresses with no more than an element's alignment
  int empty = 0;     // the rank that has nothing, where counts are uneven
  size_t salt = 0;   // shifts the data

  // The rank or -1; whether the kind reduces or has one piece per rank.
  int peer(int size) const;
  bool reduces() const;
  bool has_pieces() const;
  bool uneven() const { return form != Form::kPlain && form != Form::kParts; }
  bool caller_waits() const {
    return calling == Calling::kWaits || calling == Calling::kGroupWaits;
  }
  bool grouped() const {
    return calling == Calling::kGroupWaits || calling == Calling::kGroupAsync;
  }

  // DW_FLAG_ of all that some rank's call of this case needs.
  uint32_t flags() const;
  // Elements that `from` has for `to`; of all_to_all both matter, of gathers
  // only `from`, of scatters only `to`.
  size_t piece(int from, int to, int size) const;

  std::string name() const;
};

// Whether the operation exists at all, whoever offers it.
bool is_sensible(const Case& c);

// All that exist, as far as kind, type, reduction, form and way of calling go.
void for_all_sensible(const std::function<void(const Case&)>& use);

// Which ranks have a buffer, and how large; of ops.def.
enum class Extent : uint8_t { NONE, ALL, ALL_R, ROOT, ROOT_R };
struct Shape {
  const char* name;
  bool rooted;
  Extent in, out;
};
Shape shape_of(uint16_t kind);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_CASE_H_
