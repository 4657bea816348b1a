#include "ir/schema_default.h"

#include <charconv>
#include <deque>

namespace saker::ir::detail {
namespace {

using Base = SchemaType::Base;

struct Storage {
  std::vector<Arg> list;
  std::deque<std::string> strings;
};

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

template <typename T>
std::optional<T> number(std::string_view text) {
  T value;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> integer(std::string_view text) {
  if (text == "Mean") return 1;  // at::Reduction, as native_functions.yaml writes it
  if (text == "Sum") return 2;
  return number<int64_t>(text);
}

std::string unquote(std::string_view text) {
  std::string out;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size()) {
      constexpr std::string_view from = "ntrfvab0", to = {"\n\t\r\f\v\a\b\0", 8};
      char next = text[++i];
      size_t known = from.find(next);
      out += known == from.npos ? next : to[known];
    } else {
      out += text[i];
    }
  }
  return out;
}

std::optional<Arg> numberArg(std::string_view text) {
  if (std::optional<int64_t> v = integer(text)) return Arg::integer(*v);
  if (std::optional<double> v = number<double>(text)) return Arg::number(*v);
  return std::nullopt;
}

std::optional<Arg> dtypeArg(std::string_view text) {
  if (std::optional<int64_t> v = number<int64_t>(text); v && *v >= 0 && *v < kDTypes) {
    return Arg::dtype(static_cast<DType>(*v));
  }
  if (text == "long") return Arg::dtype(DType::Int64);
  if (text == "float") return Arg::dtype(DType::Float32);
  return std::nullopt;
}

std::optional<Arg> layoutArg(std::string_view text) {
  if (std::optional<int64_t> v = number<int64_t>(text); v && *v >= 0 && *v <= static_cast<int64_t>(Layout::Jagged)) {
    return Arg::layout(static_cast<Layout>(*v));
  }
  if (std::optional<Layout> v = layoutFromName(text)) return Arg::layout(*v);
  return std::nullopt;
}

std::optional<Arg> memoryFormatArg(std::string_view text) {
  if (std::optional<int64_t> v = number<int64_t>(text);
      v && *v >= 0 && *v <= static_cast<int64_t>(MemoryFormat::ChannelsLast3d)) {
    return Arg::memoryFormat(static_cast<MemoryFormat>(*v));
  }
  constexpr std::string_view suffix = "_format";
  if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
  if (std::optional<MemoryFormat> v = memoryFormatFromName(text)) return Arg::memoryFormat(*v);
  return std::nullopt;
}

std::optional<Arg> element(Base base, std::string_view text, Storage& storage) {
  if (text == "None") return Arg::none();
  if (text == "True" || text == "False") return Arg::boolean(text == "True");
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'')) {
    return Arg::string(storage.strings.emplace_back(unquote(text)));
  }
  switch (base) {
    case Base::Int:
    case Base::SymInt:
      if (std::optional<int64_t> v = integer(text)) return Arg::integer(*v);
      return std::nullopt;
    case Base::Float:
    case Base::SymFloat:
      if (std::optional<double> v = number<double>(text)) return Arg::number(*v);
      return std::nullopt;
    case Base::DType:
      return dtypeArg(text);
    case Base::Layout:
      return layoutArg(text);
    case Base::MemoryFormat:
      return memoryFormatArg(text);
    case Base::Device:
      if (std::optional<Device> v = deviceFromName(text)) return Arg::device(*v);
      return std::nullopt;
    default:
      return numberArg(text);
  }
}

}  // namespace

void resolveDefault(SchemaArgument& argument) {
  auto storage = std::make_shared<Storage>();
  Base base = argument.type.base;
  std::string_view text = argument.defaultText;
  if (text.starts_with('[')) {
    std::string_view rest = trim(text.substr(1, text.size() - 2));
    while (!rest.empty()) {
      size_t comma = rest.find(',');
      std::optional<Arg> item = element(base, trim(rest.substr(0, comma)), *storage);
      if (!item) return;
      storage->list.push_back(*item);
      rest = comma == rest.npos ? std::string_view() : trim(rest.substr(comma + 1));
    }
    argument.defaultValue = Arg::list(storage->list);
  } else {
    std::optional<Arg> value = element(base, text, *storage);
    if (!value) return;
    if (argument.type.list && !value->isNone()) {
      // T[2] x=1 stands for [1, 1].
      storage->list.assign(argument.type.fixedSize > 0 ? static_cast<size_t>(argument.type.fixedSize) : 1, *value);
      value = Arg::list(storage->list);
    }
    argument.defaultValue = value;
  }
  argument.defaultStorage = std::move(storage);
}

}  // namespace saker::ir::detail
