#include "codegen/elf.h"

#include <elf.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

namespace saker::codegen {
namespace {

constexpr size_t kNowhere = SIZE_MAX;
constexpr size_t kStubBytes = 16;

class Loader {
 public:
  Loader(std::string_view file, const std::function<void*(const char*)>& resolve) : file_(file), resolve_(resolve) {}

  Object run() {
    if (header() && layout() && map() && relocate() && protect()) functions();
    return std::move(object_);
  }

 private:
  bool fail(std::string message) {
    object_.error = "object file: " + std::move(message);
    object_.memory.reset();
    return false;
  }
  template <typename T>
  const T* at(size_t offset, size_t count = 1) const {
    if (offset > file_.size() || count > (file_.size() - offset) / sizeof(T)) return nullptr;
    return reinterpret_cast<const T*>(file_.data() + offset);
  }

  bool header() {
    const auto* header = at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_type != ET_REL || header->e_machine != EM_X86_64) {
      return fail("it is not one of x86-64");
    }
    count_ = header->e_shnum;
    sections_ = at<Elf64_Shdr>(header->e_shoff, count_);
    if (!sections_) return fail("its sections lie outside");
    for (size_t i = 0; i < count_; ++i) {
      if (sections_[i].sh_type == SHT_SYMTAB) symbolTable_ = &sections_[i];
      if (sections_[i].sh_type != SHT_NOBITS && !at<char>(sections_[i].sh_offset, sections_[i].sh_size)) {
        return fail("a section lies outside");
      }
    }
    if (!symbolTable_ || symbolTable_->sh_link >= count_) return fail("it has no symbols");
    symbols_ = at<Elf64_Sym>(symbolTable_->sh_offset);
    symbolCount_ = symbolTable_->sh_size / sizeof(Elf64_Sym);
    return true;
  }

  // Sections one behind the other; then a stub for each function outside.
  bool layout() {
    places_.assign(count_, kNowhere);
    for (size_t i = 0; i < count_; ++i) {
      if (!(sections_[i].sh_flags & SHF_ALLOC) || !sections_[i].sh_size) continue;
      size_t alignment = std::max<size_t>(64, sections_[i].sh_addralign);
      size_ = (size_ + alignment - 1) / alignment * alignment;
      places_[i] = size_;
      size_ += sections_[i].sh_size;
    }
    size_ = (size_ + kStubBytes - 1) / kStubBytes * kStubBytes;
    stubs_.assign(symbolCount_, kNowhere);
    for (size_t i = 1; i < symbolCount_; ++i) {
      if (symbols_[i].st_shndx != SHN_UNDEF) continue;
      stubs_[i] = size_;
      size_ += kStubBytes;
    }
    return true;
  }

  bool map() {
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return fail("there is no memory for it");
    memory_ = static_cast<char*>(memory);
    object_.memory = std::shared_ptr<const void>(memory, [size = size_](void* address) { munmap(address, size); });
    for (size_t i = 0; i < count_; ++i) {
      if (places_[i] == kNowhere || sections_[i].sh_type == SHT_NOBITS) continue;
      std::memcpy(memory_ + places_[i], file_.data() + sections_[i].sh_offset, sections_[i].sh_size);
    }
    for (size_t i = 1; i < symbolCount_; ++i) {
      if (stubs_[i] == kNowhere) continue;
      const char* name = nameOf(symbols_[i]);
      void* address = resolve_(name);
      if (!address) return fail(std::string("it calls ") + name + ", which there is not");
      // jmp *0(%rip), and the address: the function may lie farther away than a call reaches.
      constexpr unsigned char kJump[] = {0xff, 0x25, 0, 0, 0, 0};
      std::memcpy(memory_ + stubs_[i], kJump, sizeof kJump);
      std::memcpy(memory_ + stubs_[i] + sizeof kJump, &address, sizeof address);
    }
    return true;
  }

  const char* nameOf(const Elf64_Sym& symbol) const {
    const Elf64_Shdr& strings = sections_[symbolTable_->sh_link];
    if (symbol.st_name >= strings.sh_size) return "";
    return file_.data() + strings.sh_offset + symbol.st_name;
  }

  char* address(size_t symbol) const {
    if (stubs_[symbol] != kNowhere) return memory_ + stubs_[symbol];
    size_t section = symbols_[symbol].st_shndx;
    if (section >= count_ || places_[section] == kNowhere) return nullptr;
    return memory_ + places_[section] + symbols_[symbol].st_value;
  }

  bool relocate() {
    for (size_t i = 0; i < count_; ++i) {
      const Elf64_Shdr& section = sections_[i];
      if (section.sh_type != SHT_RELA || section.sh_info >= count_ || places_[section.sh_info] == kNowhere) continue;
      const auto* rows = at<Elf64_Rela>(section.sh_offset);
      for (size_t k = 0; k < section.sh_size / sizeof(Elf64_Rela); ++k) {
        if (!apply(rows[k], section.sh_info)) return false;
      }
    }
    return true;
  }

  bool apply(const Elf64_Rela& row, size_t section) {
    size_t symbol = ELF64_R_SYM(row.r_info);
    char* target = symbol < symbolCount_ ? address(symbol) : nullptr;
    if (!target || row.r_offset + 8 > sections_[section].sh_size + 4) return fail("a reference leads nowhere");
    char* place = memory_ + places_[section] + row.r_offset;
    int64_t absolute = reinterpret_cast<int64_t>(target) + row.r_addend;
    int64_t relative = absolute - reinterpret_cast<int64_t>(place);
    switch (ELF64_R_TYPE(row.r_info)) {
      case R_X86_64_PC32:
      case R_X86_64_PLT32: {
        int32_t narrow = static_cast<int32_t>(relative);
        if (narrow != relative) return fail("a reference leads too far");
        std::memcpy(place, &narrow, sizeof narrow);
        return true;
      }
      case R_X86_64_64:
        std::memcpy(place, &absolute, sizeof absolute);
        return true;
      default:
        return fail("there is a reference of kind " + std::to_string(ELF64_R_TYPE(row.r_info)));
    }
  }

  bool protect() {
    if (mprotect(memory_, size_, PROT_READ | PROT_EXEC) != 0) return fail("its memory may not be executed");
    return true;
  }

  void functions() {
    for (size_t i = 1; i < symbolCount_; ++i) {
      if (ELF64_ST_TYPE(symbols_[i].st_info) != STT_FUNC || stubs_[i] != kNowhere) continue;
      object_.functions[nameOf(symbols_[i])] = {address(i), symbols_[i].st_size};
    }
  }

  std::string_view file_;
  const std::function<void*(const char*)>& resolve_;
  Object object_;
  const Elf64_Shdr* sections_ = nullptr;
  const Elf64_Shdr* symbolTable_ = nullptr;
  const Elf64_Sym* symbols_ = nullptr;
  size_t count_ = 0, symbolCount_ = 0, size_ = 0;
  std::vector<size_t> places_, stubs_;  // by section, by symbol
  char* memory_ = nullptr;
};

}  // namespace

Object loadObject(std::string_view file, const std::function<void*(const char*)>& resolve) {
  return Loader(file, resolve).run();
}

}  // namespace saker::codegen
