// saker-opt: reads a graph in text form, runs passes on it, prints it.
#include <cstdio>

int main() {
  std::fputs("usage: saker-opt [options] file|-\n", stderr);
  return 1;
}
