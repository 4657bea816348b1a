// saker-kernel: reads a kernel in text form, verifies it, and prints it, or what it is compiled through.
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "codegen/compile.h"
#include "kernel/parse.h"
#include "kernel/verify.h"

namespace {

using namespace saker;

constexpr const char* kUsage =
    "usage: saker-kernel [options] file|-\n"
    "  --emit-llvm    print what LLVM is given, instead of the kernel\n"
    "  --emit-asm     print the assembly\n"
    "  --cpu=name     scalar, sse4, avx2 or avx512 instead of the best of this machine\n"
    "  --eager        call the functions that eager mode calls, instead of our own\n";

struct Options {
  std::string file;
  bool llvm = false, assembly = false;
  codegen::Target target = codegen::hostTarget();
  codegen::Options compile;
};

bool read(const std::string& file, std::string& text) {
  std::ifstream stream(file, std::ios::binary);
  std::istream& from = file == "-" ? std::cin : stream;
  if (!from) return false;
  text.assign(std::istreambuf_iterator<char>(from), {});
  return !from.bad();
}

int run(const Options& options) {
  std::string text;
  if (!read(options.file, text)) {
    std::cerr << options.file << ": error: cannot be read\n";
    return 1;
  }
  auto report = [&](const kernel::ParseError& error) {
    std::cerr << options.file << ':' << error.line << ':' << error.column << ": error: " << error.message << '\n';
  };
  kernel::Parsed parsed = kernel::parse(text);
  if (!parsed.ok()) return report(*parsed.error), 1;
  constexpr size_t kMaxDiagnostics = 20;
  std::vector<kernel::Diagnostic> wrong = kernel::verify(parsed.kernel, kMaxDiagnostics);
  for (const kernel::Diagnostic& each : wrong) {
    report(kernel::errorAt(text, each.node == kernel::kNone ? 0 : parsed.nodePlaces[each.node], each.message));
  }
  if (!wrong.empty()) return 1;
  if (!options.llvm && !options.assembly) {
    std::cout << print(parsed.kernel);
    return 0;
  }
  codegen::Form form = options.llvm ? codegen::Form::Llvm : codegen::Form::Assembly;
  codegen::Listing listing = codegen::list(parsed.kernel, options.target, options.compile, form);
  if (!listing.error.empty()) {
    std::cerr << options.file << ": error: " << listing.error << '\n';
    return 1;
  }
  std::cout << listing.text;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view option = argv[i];
    constexpr std::string_view kCpu = "--cpu=";
    if (option == "--emit-llvm") {
      options.llvm = true;
    } else if (option == "--emit-asm") {
      options.assembly = true;
    } else if (option == "--eager") {
      options.compile.eagerFunctions = true;
    } else if (option == "--verify") {
      // It always does; accepted since saker-opt has it.
    } else if (option.starts_with(kCpu) && codegen::targetFromName(option.substr(kCpu.size()))) {
      options.target = *codegen::targetFromName(option.substr(kCpu.size()));
    } else if ((option == "-" || !option.starts_with('-')) && options.file.empty()) {
      options.file = option;
    } else {
      std::cerr << "saker-kernel: unexpected argument " << option << '\n' << kUsage;
      return 1;
    }
  }
  if (options.file.empty()) {
    std::cerr << kUsage;
    return 1;
  }
  return run(options);
}
