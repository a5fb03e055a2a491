#include "mutants.h"
#include "numbers.h"
#include "perfect.h"
#include "sdk/dtype.h"
#include "sdk/moe_rows.h"

#include <cmath>

namespace distwrap::conformance {
namespace {

char* output(const dw_op* op) { return static_cast<char*>(op->out.data); }
char* input(const dw_op* op) { return static_cast<char*>(op->in.data); }

bool in_place(const dw_op* op) { return (op->flags & DW_FLAG_IN_PLACE) != 0; }

size_t element(const dw_op* op) { return dw_dtype_bytes(op->out.dtype); }

// Changes the result of a call that succeeded.
template <void (*kSpoil)(const dw_op*)>
int32_t spoilt(dw_comm* comm, const dw_op* op, dw_work* work, dw_error* error) {
  const int32_t code = perfect_table().submit(comm, op, work, error);
  if (code == DW_DONE) kSpoil(op);
  return code;
}

// Changes the call.
template <void (*kChange)(dw_op&)>
int32_t changed(dw_comm* comm, const dw_op* op, dw_work* work,
                dw_error* error) {
  dw_op other = *op;
  kChange(other);
  return perfect_table().submit(comm, &other, work, error);
}

void wrong_sum(const dw_op* op) {
  if (op->reduce == DW_REDUCE_SUM && op->out.count > 0 && output(op) != nullptr)
    output(op)[0] ^= 1;
}

void writes_behind(const dw_op* op) {
  if (op->kind == DW_OP_ALL_REDUCE && output(op) != nullptr)
    output(op)[static_cast<size_t>(op->out.count) * element(op)] = 0;
}

void writes_before(const dw_op* op) {
  if (op->kind == DW_OP_ALL_REDUCE && output(op) != nullptr) output(op)[-1] = 0;
}

void reduce_destroys_inputs(const dw_op* op) {
  if (op->kind == DW_OP_REDUCE && op->out.count == 0 && op->in.count > 0)
    input(op)[0] ^= 1;
}

void reduce_scatter_destroys_inputs(const dw_op* op) {
  if (op->kind == DW_OP_REDUCE_SCATTER && input(op) != nullptr &&
      op->in.count > 0 && !in_place(op))
    input(op)[0] ^= 1;
}

void reduces_in_place_elsewhere(const dw_op* op) {
  if (op->kind == DW_OP_REDUCE_SCATTER && in_place(op) &&
      input(op) != nullptr && op->in.count > op->out.count)
    input(op)[output(op) == input(op)
                  ? static_cast<size_t>(op->in.count) * element(op) - 1
                  : 0] ^= 1;
}

void scales_the_factor(const dw_op* op) {
  if (op->scale != nullptr)
    const_cast<char*>(static_cast<const char*>(op->scale))[0] ^= 1;
}

void writes_where_nothing_is(const dw_op* op) {
  if (op->out.count == 0 && output(op) != nullptr) output(op)[0] ^= 1;
}

void fills_gaps(const dw_op* op) {
  if (op->out.displs == nullptr || output(op) == nullptr) return;
  output(op)[static_cast<size_t>(op->out.displs[0]) * element(op) - 1] ^= 1;
}

void loses_nan(const dw_op* op) {
  const int dtype = dw_dtype_index(op->out.dtype);
  if (op->reduce != DW_REDUCE_MAX || !is_float(dtype) || output(op) == nullptr)
    return;
  for (int64_t i = 0; i < op->out.count; ++i) {
    char* const at = output(op) + static_cast<size_t>(i) * element(op);
    if (std::isnan(load(dtype, at).real)) store(dtype, {}, at);
  }
}

// A rank that computes in a type of 16 bits.
void rounds_too_much(const dw_op* op) {
  const int dtype = dw_dtype_index(op->out.dtype);
  if (op->reduce == DW_REDUCE_NONE || output(op) == nullptr ||
      (dtype != DW_DTYPE_F32 && dtype != DW_DTYPE_F64))
    return;
  for (int64_t i = 0; i < op->out.count; ++i) {
    char* const at = output(op) + static_cast<size_t>(i) * element(op);
    char half[2];
    store(DW_DTYPE_BF16, load(dtype, at), half);
    store(dtype, load(DW_DTYPE_BF16, half), at);
  }
}

// The factors of an avg are off.
void divides_by_more(const dw_op* op) {
  const int dtype = dw_dtype_index(op->out.dtype);
  if (op->reduce != DW_REDUCE_AVG || !is_float(dtype) || output(op) == nullptr)
    return;
  for (int64_t i = 0; i < op->out.count; ++i) {
    char* const at = output(op) + static_cast<size_t>(i) * element(op);
    store(dtype, {0, load(dtype, at).real * 0.75L}, at);
  }
}

void forgets_the_end(dw_op& op) {
  if (op.kind == DW_OP_BROADCAST && op.out.count > 0) {
    op.out.count -= 1;
    op.in.count -= op.in.count > 0 ? 1 : 0;
  }
}

void ignores_gaps(dw_op& op) { op.out.displs = nullptr; }

void treats_exclusive_as_inclusive(dw_op& op) {
  op.flags &= ~DW_FLAG_EXCLUSIVE;
}

void ignores_factors(dw_op& op) {
  if (op.reduce == DW_REDUCE_PREMUL_SUM) op.reduce = DW_REDUCE_SUM;
}

void sums_for_avg(dw_op& op) {
  if (op.reduce == DW_REDUCE_AVG) op.reduce = DW_REDUCE_SUM;
}

// Changes the lists of rows of a caller that waits.
template <void (*kChange)(const dw_op&, dw_ext_moe&)>
int32_t relisted(dw_comm* comm, const dw_op* op, dw_work* work,
                 dw_error* error) {
  dw_ext_moe lists;
  if (work != nullptr ||
      dw_read_struct(&lists, sizeof lists, dw_sdk::moe_extension_of(*op),
                     DW_EXT_MOE_SIZE_1_2) != DW_OK)
    return perfect_table().submit(comm, op, work, error);
  dw_op other = *op;
  other.next = &lists.head;
  kChange(*op, lists);
  return perfect_table().submit(comm, &other, work, error);
}

void ignores_places(const dw_op&, dw_ext_moe& lists) {
  lists.place_first = nullptr;
  lists.place = nullptr;
}

void gives_each_row_one_place(const dw_op&, dw_ext_moe& lists) {
  lists.place_first = nullptr;
}

void gives_rows_in_order(const dw_op&, dw_ext_moe& lists) {
  lists.give = nullptr;
}

void gives_rows_of_the_first_rank(const dw_op&, dw_ext_moe& lists) {
  static const int64_t kZeros[8] = {};
  lists.give_first = kZeros;
}

// Changes the sums of rows of a caller that waits.
template <void (*kChange)(dw_ext_moe&, dw_ext_moe_sum&)>
int32_t resummed(dw_comm* comm, const dw_op* op, dw_work* work,
                 dw_error* error) {
  dw_ext_moe lists;
  dw_ext_moe_sum sums;
  if (work != nullptr ||
      dw_read_struct(&lists, sizeof lists, dw_sdk::moe_extension_of(*op),
                     DW_EXT_MOE_SIZE_1_2) != DW_OK ||
      dw_read_struct(&sums, sizeof sums, dw_sdk::moe_sum_extension_of(*op),
                     DW_EXT_MOE_SUM_SIZE_1_2) != DW_OK)
    return perfect_table().submit(comm, op, work, error);
  dw_op other = *op;
  other.next = &lists.head;
  lists.head.next = &sums.head;
  kChange(lists, sums);
  return perfect_table().submit(comm, &other, work, error);
}

void forgets_weights(dw_ext_moe&, dw_ext_moe_sum& sums) {
  sums.results.weights = nullptr;
}

void forgets_biases(dw_ext_moe&, dw_ext_moe_sum& sums) { sums.n_biases = 0; }

void adds_later_terms_first(dw_ext_moe&, dw_ext_moe_sum& sums) {
  thread_local std::vector<dw_moe_term> terms;
  const dw_moe_terms& results = sums.results;
  if (results.first == nullptr || results.terms == nullptr) return;
  terms.assign(results.terms, results.terms + results.first[results.n]);
  for (uint64_t i = 0; i < results.n; ++i)
    if (results.first[i + 1] - results.first[i] > 2)
      std::swap(terms[static_cast<size_t>(results.first[i])].row,
                terms[static_cast<size_t>(results.first[i]) + 1].row),
          std::swap(terms[static_cast<size_t>(results.first[i])].from,
                    terms[static_cast<size_t>(results.first[i]) + 1].from);
  sums.results.terms = terms.data();
}

void adds_all_into_one_sum(dw_ext_moe&, dw_ext_moe_sum& sums) {
  thread_local std::vector<dw_moe_term> terms;
  const dw_moe_terms& results = sums.results;
  if (results.first == nullptr || results.terms == nullptr) return;
  terms.assign(results.terms, results.terms + results.first[results.n]);
  for (dw_moe_term& term : terms) {
    term.into = 2;
    term.then = 0;
  }
  sums.results.terms = terms.data();
}

int32_t knows_no_sums_but_adds(dw_comm* comm, const dw_op* op,
                               dw_error* error) {
  return dw_sdk::moe_sum_extension_of(*op) != nullptr
             ? dw_unsupported(error, "no sums")
             : perfect_table().query(comm, op, error);
}

int32_t knows_no_rows_but_moves_them(dw_comm* comm, const dw_op* op,
                                     dw_error* error) {
  return dw_sdk::moe_extension_of(*op) != nullptr
             ? dw_unsupported(error, "no rows")
             : perfect_table().query(comm, op, error);
}

int32_t takes_parts_for_another_rank(dw_comm* comm, const dw_op* op,
                                     dw_work* work, dw_error* error) {
  dw_op other = *op;
  std::vector<void*> parts;
  if (op->out.parts != nullptr && op->out.counts == nullptr) {
    parts = {op->out.parts[1], op->out.parts[0], op->out.parts[2]};
    other.out.parts = parts.data();
  }
  return perfect_table().submit(comm, &other, work, error);
}

// Two operations of one kind that are in flight together: the second sends the
// first one's data.
int32_t confuses_twins(dw_comm* comm, const dw_op* op, dw_work* work,
                       dw_error* error) {
  thread_local dw_op last = {};
  dw_op other = *op;
  if (work != nullptr && op->kind == last.kind && op->seq % 2 == 0 &&
      op->in.count == last.in.count && op->seq == last.seq + 1)
    other.in = last.in;
  last = *op;
  return perfect_table().submit(comm, &other, work, error);
}

constexpr char kOutput[] = "the output is wrong";

}  // namespace

#define AFTER(function, says)                                       \
  {                                                                 \
#function, check_calls, 3, says,                                \
        [](dw_backend_api & api) { api.submit = spoilt<function>; } \
  }
// The backend reduces floats by rules of its own.
#define OWN_FLOATS(function)                  \
  {                                           \
#function, check_calls, 3, kOutput,         \
        [](dw_backend_api & api) {              \
          api.flags |= DW_BACKEND_OWN_FLOATS;   \
          api.submit = spoilt<function>;        \
        } \
  }
#define BEFORE(function, says)                                       \
  {                                                                  \
#function, check_calls, 3, says,                                 \
        [](dw_backend_api & api) { api.submit = changed<function>; } \
  }

#define ROWS(name, says)                                          \
  {                                                               \
#name, check_rows, 3, says,                                   \
        [](dw_backend_api & api) { api.submit = relisted<name>; } \
  }

#define SUMS(name)                                                \
  {                                                               \
#name, check_row_sums, 3, "a sum is wrong",                   \
        [](dw_backend_api & api) { api.submit = resummed<name>; } \
  }

std::vector<Mutant> mutants_of_calls() {
  return {
      AFTER(wrong_sum, kOutput),
      AFTER(writes_behind, "wrote outside of the output"),
      AFTER(writes_before, "wrote outside of the output"),
      AFTER(reduce_destroys_inputs, "wrote into the input"),
      AFTER(reduce_scatter_destroys_inputs, "wrote into the input"),
      AFTER(reduces_in_place_elsewhere, "wrote into the input"),
      AFTER(scales_the_factor, "wrote into the factor"),
      AFTER(writes_where_nothing_is, "this rank does not have"),
      AFTER(fills_gaps, "where nothing is to change"),
      AFTER(loses_nan, kOutput),
      OWN_FLOATS(wrong_sum),
      OWN_FLOATS(loses_nan),
      OWN_FLOATS(rounds_too_much),
      OWN_FLOATS(divides_by_more),
      BEFORE(forgets_the_end, kOutput),
      BEFORE(ignores_gaps, kOutput),
      BEFORE(treats_exclusive_as_inclusive, kOutput),
      BEFORE(ignores_factors, kOutput),
      BEFORE(sums_for_avg, kOutput),
      ROWS(ignores_places, "not at its place"),
      ROWS(gives_each_row_one_place, "not at its place"),
      ROWS(gives_rows_in_order, "not at its place"),
      ROWS(gives_rows_of_the_first_rank, "not at its place"),
      SUMS(forgets_weights),
      SUMS(forgets_biases),
      SUMS(adds_later_terms_first),
      SUMS(adds_all_into_one_sum),
      {"knows_no_sums_but_adds", check_row_sums, 3, "not known",
       [](dw_backend_api& api) { api.query = knows_no_sums_but_adds; }},
      {"knows_no_rows_but_moves_them", check_rows, 3, "not known",
       [](dw_backend_api& api) { api.query = knows_no_rows_but_moves_them; }},
      {"takes_parts_for_another_rank", check_calls, 3, kOutput,
       [](dw_backend_api& api) { api.submit = takes_parts_for_another_rank; }},
      {"confuses_twins", check_pairs, 3, kOutput,
       [](dw_backend_api& api) { api.submit = confuses_twins; }},
  };
}

}  // namespace distwrap::conformance
