// saker-opt: reads a graph in text form, verifies it, runs passes on it, prints it.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <variant>

#include "autograd/partition.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verifier.h"
#include "kernel/parse.h"
#include "kernel/verify.h"
#include "lower/fuse.h"
#include "lower/lower.h"
#include "ops/group.h"
#include "ops/operator.h"
#include "passes/infer_check.h"
#include "passes/pass.h"

namespace {

using namespace saker;

constexpr const char* kUsage = "usage: saker-opt [options] file|-\n";

struct Option {
  std::string_view name;  // with "=", and what follows it, where it takes a value
  std::string_view description;
};

constexpr Option kOptions[] = {
    {"--passes=a,b", "run these passes, in this order"},
    {"--verify", "verify the graph after each pass too"},
    {"--dump", "print the graph after each pass, to standard error"},
    {"--time", "print the time of each pass, and how many nodes it leaves, to standard error"},
    {"--loc", "print source locations"},
    {"--infer-check", "compare the types that are written in the input with inferred ones"},
    {"--partition=primals,tangents,results[,budget]",
     "take the graph for a joint one with that many primals, tangents and forward results, and cut it into a forward "
     "and a backward graph, which are printed; the memory budget is between 0 and 1 (the default)"},
    {"--fuse", "make groups of operators that become kernels together"},
    {"--fewest=n", "smallest number of operators in a group (2)"},
    {"--groups", "print why each group ended, in the place of the graph"},
    {"--lower", "print the kernels of the groups, in the place of the graph"},
    {"--list-passes", "print the passes and stop"},
    {"--help, -h", "print this text and stop"},
};

void printPasses() {
  for (const passes::Pass& pass : passes::all()) {
    std::printf("  %-24s %s\n", std::string(pass.name).c_str(), std::string(pass.description).c_str());
  }
}

// Words of the text, in lines of at most 80 characters behind an indentation.
void printWrapped(std::string_view text, int indentation) {
  std::istringstream words{std::string(text)};
  std::string line, word;
  auto flush = [&] { std::printf("%*s%s\n", indentation, "", line.c_str()), line.clear(); };
  while (words >> word) {
    if (!line.empty() && line.size() + word.size() + 1 > 80 - static_cast<size_t>(indentation)) flush();
    line += (line.empty() ? "" : " ") + word;
  }
  flush();
}

void printHelp() {
  std::printf("%s\n", kUsage);
  printWrapped(
      "Reads a graph in text form (docs/text-form.md) from a file, or from standard input where the file is -. "
      "Verifies it, runs passes on it, and prints what becomes of it to standard output.",
      0);
  std::printf("\noptions:\n");
  for (const Option& option : kOptions) {
    std::printf("  %s\n", std::string(option.name).c_str());
    printWrapped(option.description, 6);
  }
  std::printf("\npasses:\n");
  printPasses();
  std::printf("\nexit codes:\n  %s\n  %s\n  %s\n", "0  the graph was printed",
              "1  the input cannot be read, is no valid graph, or a pass refuses it; the reason is on standard error",
              "2  an option is unknown or wrong, or there is no file");
}

struct Options {
  std::string file;
  std::string passes;
  bool verify = false;
  bool dump = false;
  bool time = false;
  bool inferCheck = false;
  bool fuse = false;
  bool groups = false;
  bool lower = false;
  lower::FuseOptions fusion;
  ir::PrintOptions print;
  std::optional<autograd::JointLayout> joint;
  autograd::PartitionOptions partition;
};

bool read(const std::string& file, std::string& text) {
  if (file == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
    return true;
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return false;
  text.assign(std::istreambuf_iterator<char>(stream), {});
  return !stream.bad();
}

void report(const Options& options, const ir::ParseError& error) {
  std::cerr << options.file << ':' << error.line << ':' << error.column << ": error: " << error.message << '\n';
}

// True if there are none.
bool report(const Options& options, std::string_view text, const ir::Parsed& parsed,
            const std::vector<ir::Diagnostic>& diagnostics) {
  for (const ir::Diagnostic& found : diagnostics) {
    size_t place = found.node ? parsed.nodePlaces[found.node->id()] : 0;
    report(options, ir::errorAt(text, place, found.message));
  }
  return diagnostics.empty();
}

bool readLayout(std::string_view text, Options& options) {
  std::istringstream in{std::string(text)};
  autograd::JointLayout& joint = options.joint.emplace();
  char comma = ',', comma2 = ',';
  in >> joint.primals >> comma >> joint.tangents >> comma2 >> joint.forwardResults;
  if (!in || comma != ',' || comma2 != ',') return false;
  if (in >> comma) in >> options.partition.memoryBudget;
  return comma == ',' && in.eof();
}

int printCut(const Options& options, const ir::Graph& graph) {
  std::variant<autograd::Cut, std::string> made = autograd::partition(graph, *options.joint, options.partition);
  if (const std::string* error = std::get_if<std::string>(&made)) {
    std::cerr << options.file << ": error: partition: " << *error << '\n';
    return 1;
  }
  const autograd::Cut& cut = std::get<autograd::Cut>(made);
  for (const ir::Graph* half : {cut.forward.get(), cut.backward.get()}) {
    for (const ir::Diagnostic& found : ir::verify(*half)) {
      std::cerr << options.file << ": error: after partition: " << found.message << '\n';
      return 1;
    }
    std::cout << ir::print(*half, options.print);
  }
  return 0;
}

// True if the kernels are as they must be.
bool printKernels(const Options& options, const ir::Region* region) {
  for (const ir::Node* node = region->first(); node; node = node->next()) {
    if (!ops::isGroup(*node)) {
      for (const ir::Region* body : node->regions()) {
        if (!printKernels(options, body)) return false;
      }
      continue;
    }
    lower::Lowered lowered = lower::lower(*node);
    std::cout << "# group\n" << lower::describe(lowered);
    for (const lower::Launch& launch : lowered.launches) {
      std::string text = kernel::print(launch.kernel);
      for (const kernel::Diagnostic& found : kernel::verify(launch.kernel)) {
        std::cerr << options.file << ": error: in a kernel: " << found.message << '\n';
        return false;
      }
      kernel::Parsed parsed = kernel::parse(text);
      if (!parsed.ok() || kernel::print(parsed.kernel) != text) {
        std::cerr << options.file << ": error: a kernel does not read back\n" << text;
        return false;
      }
    }
  }
  return true;
}

int fuse(const Options& options, ir::Graph& graph) {
  lower::Fusion fusion;
  if (options.fuse) fusion = lower::fuse(graph, options.fusion);
  for (const ir::Diagnostic& found : ir::verify(graph)) {
    std::cerr << options.file << ": error: after fusion: " << found.message << '\n';
    return 1;
  }
  if (options.groups) {
    for (const lower::FusedGroup& group : fusion.groups) {
      size_t count = 0;
      for (const ir::Node* node = group.node->regions()[0]->first(); !node->isReturn(); node = node->next()) ++count;
      const char* nobody = "nothing reads it but the caller";
      std::cout << count << " nodes; " << (group.ended.empty() ? nobody : group.ended) << '\n';
    }
    for (const std::string& reason : fusion.refused) std::cout << "refused: " << reason << '\n';
    return 0;
  }
  if (options.lower) return printKernels(options, graph.top()) ? 0 : 1;
  std::cout << ir::print(graph, options.print);
  return 0;
}

int optimize(const Options& options) {
  std::string text;
  if (!read(options.file, text)) {
    std::cerr << options.file << ": error: cannot be read\n";
    return 1;
  }
  ir::Parsed parsed = ir::parse(text, std::make_shared<ir::Context>(ops::lookup));
  if (!parsed.ok()) return report(options, *parsed.error), 1;
  constexpr size_t kMaxDiagnostics = 20;
  if (!report(options, text, parsed, ir::verify(*parsed.graph, kMaxDiagnostics))) return 1;
  if (options.inferCheck && !report(options, text, parsed, passes::checkInference(*parsed.graph))) return 1;

  passes::RunOptions run;
  run.verify = options.verify;
  if (options.dump) {
    run.after = [&](const passes::Pass& pass, const ir::Graph& graph) {
      std::cerr << "# after " << pass.name << '\n' << ir::print(graph, options.print);
    };
  }
  passes::RunResult result = passes::run(*parsed.graph, options.passes, run);
  if (options.time) {
    for (const passes::PassRun& pass : result.runs) {
      std::fprintf(stderr, "%-24s %10.3f ms %10zu -> %zu nodes\n", std::string(pass.pass->name).c_str(),
                   pass.milliseconds, pass.nodesBefore, pass.nodesAfter);
    }
  }
  if (!result.ok()) {
    std::cerr << options.file << ": error: " << *result.error << '\n';
    return 1;
  }
  if (options.joint) return printCut(options, *parsed.graph);
  if (options.fuse || options.lower) return fuse(options, *parsed.graph);
  std::cout << ir::print(*parsed.graph, options.print);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  constexpr int kWrongUse = 2;
  for (int i = 1; i < argc; ++i) {
    std::string_view option = argv[i];
    constexpr std::string_view kPasses = "--passes=", kPartition = "--partition=", kFewest = "--fewest=";
    if (option == "--help" || option == "-h") return printHelp(), 0;
    if (option == "--list-passes") return printPasses(), 0;
    if (option.starts_with(kPartition)) {
      if (!readLayout(option.substr(kPartition.size()), options)) {
        std::cerr << "saker-opt: " << option << ": expected --partition=primals,tangents,results[,budget]\n";
        return kWrongUse;
      }
    } else if (option.starts_with(kFewest)) {
      options.fusion.fewestNodes = std::strtoul(std::string(option.substr(kFewest.size())).c_str(), nullptr, 10);
    } else if (option.starts_with(kPasses)) {
      options.passes = option.substr(kPasses.size());
    } else if (option == "--verify") {
      options.verify = true;
    } else if (option == "--dump") {
      options.dump = true;
    } else if (option == "--time") {
      options.time = true;
    } else if (option == "--loc") {
      options.print.locations = true;
    } else if (option == "--fuse") {
      options.fuse = true;
    } else if (option == "--groups") {
      options.fuse = options.groups = true;
    } else if (option == "--lower") {
      options.lower = true;
    } else if (option == "--infer-check") {
      options.inferCheck = true;
    } else if ((option == "-" || !option.starts_with('-')) && options.file.empty()) {
      options.file = option;
    } else {
      std::cerr << "saker-opt: unexpected argument " << option << '\n' << kUsage << "saker-opt --help says more\n";
      return kWrongUse;
    }
  }
  if (options.file.empty()) {
    std::cerr << "saker-opt: a file is missing, or - for standard input\n" << kUsage << "saker-opt --help says more\n";
    return kWrongUse;
  }
  return optimize(options);
}
