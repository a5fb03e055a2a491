#include "comm/prepared_op.h"

namespace distwrap::comm {
namespace {

template <class T>
void keep(T* const** array, int size, std::vector<T*>* own) {
  if (*array == nullptr) return;
  own->assign(*array, *array + size);
  *array = own->data();
}

void keep(const int64_t** array, int size, std::vector<int64_t>* own) {
  if (*array == nullptr) return;
  own->assign(*array, *array + size);
  *array = own->data();
}

}  // namespace

void keep_counts(int size, PreparedOp* prepared) {
  dw_op& op = prepared->op;
  keep(&op.in.counts, size, &prepared->in_counts);
  keep(&op.in.displs, size, &prepared->in_displs);
  keep(&op.out.counts, size, &prepared->out_counts);
  keep(&op.out.displs, size, &prepared->out_displs);
}

std::unique_ptr<PreparedOp> keep_op(const dw_op& op, int size) {
  auto kept = std::make_unique<PreparedOp>();
  kept->op = op;
  keep_counts(size, kept.get());
  keep(&kept->op.in.parts, size, &kept->lists.in_parts);
  keep(&kept->op.out.parts, size, &kept->lists.out_parts);
  return kept;
}

std::unique_ptr<PreparedOp> copy_op(const PreparedOp& given, int size) {
  std::unique_ptr<PreparedOp> copy = keep_op(given.op, size);
  copy->label = given.label;
  copy->reduction = given.reduction;
  copy->own_scale = given.own_scale;
  copy->scale = given.scale;
  if (given.own_scale) copy->op.scale = copy->scale.bytes;
  return copy;
}

}  // namespace distwrap::comm
