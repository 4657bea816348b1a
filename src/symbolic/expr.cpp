#include "symbolic/expr.h"

#include <algorithm>

namespace saker::sym {

// Operands that are equal are the same pointer, so this follows one path down: the first difference.
int compare(const Node* a, const Node* b) {
  if (a == b) return 0;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  uint32_t shared = std::min(a->count, b->count);
  for (uint32_t i = 0; i < shared; ++i) {
    if (a->operands[i] != b->operands[i]) return compare(a->operands[i], b->operands[i]);
  }
  if (a->count != b->count) return a->count < b->count ? -1 : 1;
  if (a->value != b->value) return a->value < b->value ? -1 : 1;
  return a->id < b->id ? -1 : 1;  // two symbols, one of which was rolled back
}

}  // namespace saker::sym
