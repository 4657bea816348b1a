// What it costs to ask about symbolic sizes: the questions that PyTorch asks by the hundred in every trace.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "symbolic/context.h"

using namespace saker::sym;

namespace {

// Processor time: other programs on the machine do not count.
double nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

template <typename Ask>
void measure(const char* name, Ask&& ask) {
  constexpr int kRepeat = 20000;
  double best = 1e9;
  int answers = 0;
  for (int round = 0; round < 7; ++round) {
    double start = nanoseconds();
    for (int i = 0; i < kRepeat; ++i) answers += ask();
    best = std::min(best, (nanoseconds() - start) / kRepeat);
  }
  std::printf("%-44s %8.1f ns   %s\n", name, best, answers ? "true" : "false");
}

}  // namespace

int main() {
  Context c;
  Int s0 = c.symbol("s0", Range::size(), 24), s1 = c.symbol("s1", Range::size(), 128);
  Int s2 = c.symbol("s2", Range::size(), 16);
  Int numel = s0 * s1 * 64, row = s1 * 64;

  std::printf("From ranges and the canonical form (each builds its expression)\n");
  measure("plain numbers: 3 * 4 == 12", [a = Int(3), b = Int(4)] { return bool(a * b == Int(12)); });
  measure("s0 == 0", [&] { return bool(s0 == Int(0)); });
  measure("s0 == 1", [&] { return bool(s0 == Int(1)); });
  measure("s0*s1 == 0", [&] { return bool(s0 * s1 == Int(0)); });
  measure("s0*64 == 64", [&] { return bool(s0 * 64 == Int(64)); });
  measure("s0*s1 < 0", [&] { return bool(s0 * s1 < Int(0)); });
  measure("64*s0 == s0*64", [&] { return bool(Int(64) * s0 == s0 * Int(64)); });
  measure("stride == size*stride", [&] { return bool(row == s1 * Int(64)); });
  measure("s0*s1 == s1", [&] { return bool(s0 * s1 == s1); });
  measure("numel // s0 == 64*s1", [&] { return bool(numel / s0 == row); });
  measure("s0*s1 < s0 + s1", [&] { return bool(s0 * s1 < s0 + s1); });
  measure("(s0 + 7)//8*8 >= s0", [&] { return bool((s0 + 7) / 8 * 8 >= s0); });

  std::printf("With facts: s0 %% 8 == 0, s1 <= 1024, s2 <= s0\n");
  for (Bool fact : {s0 % 8 == Int(0), s1 <= Int(1024), s2 <= s0}) c.facts().assume(fact.in(c));
  measure("s0 == 0", [&] { return bool(s0 == Int(0)); });
  measure("s0 % 4 == 0", [&] { return bool(s0 % 4 == Int(0)); });
  measure("s0//8*8 == s0", [&] { return bool(s0 / 8 * 8 == s0); });
  measure("s1 < 2000", [&] { return bool(s1 < Int(2000)); });
  measure("s2 <= s0 + 3", [&] { return bool(s2 <= s0 + 3); });

  std::printf("The same, asked for the first time\n");
  std::vector<const Node*> fresh;
  auto first = [&](const char* name, auto&& make) {
    constexpr int kCount = 2000;
    fresh.clear();
    for (int i = 0; i < kCount; ++i) fresh.push_back(make(i).in(c));
    double start = nanoseconds();
    int known = 0;
    for (const Node* node : fresh) known += c.facts().prove(node).has_value();
    double took = (nanoseconds() - start) / kCount;
    std::printf("%-44s %8.1f ns   %d of %d known\n", name, took, known, kCount);
  };
  first("s0 == 8*i + 3", [&](int i) { return s0 == Int(8 * i + 3); });
  first("s1 < 2000 + i", [&](int i) { return s1 < Int(2000 + i); });
  first("s2 <= s0 + i", [&](int i) { return s2 <= s0 + Int(i + 1); });
  first("s2 == i", [&](int i) { return s2 == Int(i + 10); });
  first("s0*s2 <= s1 + i (unknown)", [&](int i) { return s0 * s2 <= s1 + Int(i); });

  std::printf("Changing facts\n");
  Facts before = c.facts();
  measure("assume s2 != 100", [&] {
    Facts facts = before;
    return facts.assume((s2 != Int(100)).in(c));
  });
  measure("assume s2 % 4 == 0", [&] {
    Facts facts = before;
    return facts.assume((s2 % 4 == Int(0)).in(c));
  });
  measure("assume s1 == s2", [&] {
    Facts facts = before;
    return facts.assume((s1 == s2).in(c));
  });
  measure("checkpoint and rollback", [&] {
    c.rollback(c.checkpoint());
    return true;
  });
  std::printf("%zu expressions, %zu guards\n", c.nodeCount(), c.guards().size());
  return c.guards().empty() ? 0 : 1;
}
