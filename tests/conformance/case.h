// One call of a collective, equal on all ranks: the dimensions of the suite.
#ifndef DISTWRAP_TESTS_CONFORMANCE_CASE_H_
#define DISTWRAP_TESTS_CONFORMANCE_CASE_H_

#include "numbers.h"

#include <functional>
#include <string>

namespace distwrap::conformance {

// The form of a buffer with one piece for each rank.
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
  size_t count = 0;  // elements of each rank, the n of ops.def
  int root = 0;      // rank, modulo the size of the group
  bool odd = false;  // addresses with no more than an element's alignment
  int empty = 0;     // the rank without elements, where counts are uneven
  size_t salt = 0;   // shifts the data

  // The rank of the root, or -1; whether the kind reduces or has pieces.
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

  // The DW_FLAG_ bits that some rank's call of this case needs.
  uint32_t flags() const;
  // The elements that `from` has for `to`. Gathers depend only on `from`,
  // scatters only on `to`, all_to_all on both.
  size_t piece(int from, int to, int size) const;

  std::string name() const;
};

// Whether the ABI has the operation at all, whatever the backend.
bool is_sensible(const Case& c);

// All existing combinations of kind, type, reduction, form and way of calling.
void for_all_sensible(const std::function<void(const Case&)>& use);

// The ranks that have a buffer, and its size, as in ops.def.
enum class Extent : uint8_t { NONE, ALL, ALL_R, ROOT, ROOT_R };
struct Shape {
  const char* name;
  bool rooted;
  Extent in, out;
};
Shape shape_of(uint16_t kind);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_CASE_H_
