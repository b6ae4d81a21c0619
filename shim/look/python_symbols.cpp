#include "look/python_symbols.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"

namespace rankshim::look {
namespace {

constexpr unsigned most_headers = 64;
constexpr unsigned most_dynamic_entries = 256;
constexpr unsigned most_libraries = 4096;
constexpr unsigned longest_chain = 4096;  // of symbols with the same hash
constexpr std::size_t longest_path = 4096;

/// The dynamic section of an executable or library in memory.
struct Object {
  std::uint64_t bias = 0;  ///< added to the addresses in its file
  std::uint64_t symbols = 0, names = 0, gnu_hash = 0, hash = 0;
  std::uint64_t debug = 0;  ///< r_debug of link.h; only the executable has it
};

Object read_object(Memory& memory, std::uint64_t bias, std::uint64_t section) {
  Object object{.bias = bias};
  for (unsigned at = 0; at < most_dynamic_entries; ++at) {
    const auto entry = memory.read<Elf64_Dyn>(section + at * sizeof(Elf64_Dyn));
    // glibc has added the bias here, musl has not.
    const std::uint64_t address = entry.d_un.d_ptr < bias ? entry.d_un.d_ptr + bias : entry.d_un.d_ptr;
    if (entry.d_tag == DT_SYMTAB) object.symbols = address;
    if (entry.d_tag == DT_STRTAB) object.names = address;
    if (entry.d_tag == DT_GNU_HASH) object.gnu_hash = address;
    if (entry.d_tag == DT_HASH) object.hash = address;
    if (entry.d_tag == DT_DEBUG) object.debug = entry.d_un.d_ptr;
    if (entry.d_tag == DT_NULL) break;
  }
  return object;
}

std::optional<Object> executable(Memory& memory, const ProgramHeaders& program) {
  std::optional<std::uint64_t> bias;
  std::uint64_t beginning = 0;
  std::uint64_t section = 0;
  for (unsigned at = 0; at < program.count && at < most_headers; ++at) {
    const auto header = memory.read<Elf64_Phdr>(program.address + at * sizeof(Elf64_Phdr));
    if (header.p_type == PT_PHDR) bias = program.address - header.p_vaddr;  // 0 if it is not a PIE
    if (header.p_type == PT_LOAD && header.p_offset == 0) beginning = header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) section = header.p_vaddr;
  }
  if (section == 0) return std::nullopt;
  // ld.so itself has no PT_PHDR: the program headers follow the file header.
  if (!bias) bias = program.address - sizeof(Elf64_Ehdr) - beginning;
  return read_object(memory, *bias, *bias + section);
}

/// The address that a symbol stands for; nullopt if it has another name, or is undefined here.
std::optional<std::uint64_t> address_if(Memory& memory, const Object& object, std::uint64_t number,
                                        std::string_view name) {
  const auto symbol = memory.read<Elf64_Sym>(object.symbols + number * sizeof(Elf64_Sym));
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) return std::nullopt;
  if (memory.bytes(object.names + symbol.st_name, name.size() + 1) != std::string(name) + '\0')
    return std::nullopt;
  return object.bias + symbol.st_value;
}

/// Looks a symbol up in DT_GNU_HASH: https://flapenguin.me/elf-dt-gnu-hash, glibc:elf/dl-lookup.c.
std::optional<std::uint64_t> find_by_gnu_hash(Memory& memory, const Object& object, std::string_view name) {
  std::uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  const auto [buckets, first, blooms, shift] = memory.read<std::array<std::uint32_t, 4>>(object.gnu_hash);
  if (buckets == 0) return std::nullopt;
  const std::uint64_t bucket = object.gnu_hash + 16 + std::uint64_t{blooms} * 8;
  const std::uint64_t chain = bucket + std::uint64_t{buckets} * 4;
  std::uint64_t number = memory.read<std::uint32_t>(bucket + std::uint64_t{hash % buckets} * 4);
  if (number < first) return std::nullopt;
  for (unsigned step = 0; step < longest_chain; ++step, ++number) {
    const auto other = memory.read<std::uint32_t>(chain + (number - first) * 4);
    if ((other | 1U) == (hash | 1U))
      if (const auto found = address_if(memory, object, number, name)) return found;
    if ((other & 1U) != 0) break;
  }
  return std::nullopt;
}

/// Looks a symbol up in DT_HASH: the System V ABI's "Hash Table".
std::optional<std::uint64_t> find_by_hash(Memory& memory, const Object& object, std::string_view name) {
  std::uint32_t hash = 0;
  for (const char c : name) {
    hash = (hash << 4U) + static_cast<unsigned char>(c);
    const std::uint32_t high = hash & 0xF0000000U;
    hash = (hash ^ (high >> 24U)) & ~high;
  }
  const auto [buckets, symbols] = memory.read<std::array<std::uint32_t, 2>>(object.hash);
  if (buckets == 0) return std::nullopt;
  const std::uint64_t chain = object.hash + 8 + std::uint64_t{buckets} * 4;
  auto number = memory.read<std::uint32_t>(object.hash + 8 + std::uint64_t{hash % buckets} * 4);
  for (unsigned step = 0; step < longest_chain && number != STN_UNDEF && number < symbols; ++step) {
    if (const auto found = address_if(memory, object, number, name)) return found;
    number = memory.read<std::uint32_t>(chain + std::uint64_t{number} * 4);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> find_symbol(Memory& memory, const Object& object, std::string_view name) {
  if (object.symbols == 0 || object.names == 0) return std::nullopt;
  if (object.gnu_hash != 0) return find_by_gnu_hash(memory, object, name);
  return object.hash != 0 ? find_by_hash(memory, object, name) : std::nullopt;
}

/// The minor version, judging by the symbols that it was the first to export; the file's name may be just
/// "python".
unsigned minor_version(Memory& memory, const Object& object) {
  if (const auto version = find_symbol(memory, object, "Py_Version")) {  // since 3.11: PY_VERSION_HEX
    const std::uint64_t hex = memory.pointer(*version);
    if (hex >> 24U != 3) throw Implausible(fmt::format("it is Python {}", hex >> 24U));
    return static_cast<unsigned>(hex >> 16U & 0xFFU);
  }
  struct Newcomer {
    std::string_view name;
    unsigned minor;
  };
  // "New in version …" of Python's C API.
  for (const Newcomer& one : {Newcomer{"Py_NewRef", 10}, Newcomer{"PyThreadState_GetFrame", 9},
                              Newcomer{"PyConfig_InitPythonConfig", 8}})
    if (find_symbol(memory, object, one.name)) return one.minor;
  throw Implausible("it is a Python before 3.8");
}

std::optional<Python> python_in(Memory& memory, const Object& object) {
  const auto runtime = find_symbol(memory, object, "_PyRuntime");
  const auto code_type = find_symbol(memory, object, "PyCode_Type");
  if (!runtime || !code_type) return std::nullopt;
  return Python{.runtime = *runtime, .code_type = *code_type, .minor = minor_version(memory, object)};
}

}  // namespace

ProgramHeaders parse_auxv(std::string_view auxv) {
  ProgramHeaders program;
  for (std::size_t at = 0; at + sizeof(Elf64_auxv_t) <= auxv.size(); at += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t entry;
    std::memcpy(&entry, auxv.data() + at, sizeof entry);
    if (entry.a_type == AT_PHDR) program.address = entry.a_un.a_val;
    if (entry.a_type == AT_PHNUM) program.count = entry.a_un.a_val;
  }
  return program;
}

Python find_python(Memory& memory, const ProgramHeaders& program) {
  const std::optional<Object> itself = executable(memory, program);
  if (!itself) throw Implausible("it is not CPython");
  if (const auto python = python_in(memory, *itself)) return *python;
  // If the program was started as "ld.so PROGRAM", the executable is ld.so; the program is the first in the
  // list.
  const std::uint64_t debug =
      itself->debug != 0 ? itself->debug : find_symbol(memory, *itself, "_r_debug").value_or(0);
  if (debug == 0) throw Implausible("it is not CPython");
  std::uint64_t at = memory.pointer(debug + offsetof(r_debug, r_map));
  for (unsigned step = 0; at != 0 && step < most_libraries; ++step) {
    const auto library = memory.read<std::array<std::uint64_t, 4>>(at);  // l_addr, l_name, l_ld, l_next
    const std::string path = library[1] == 0 ? std::string() : memory.text(library[1], longest_path);
    const std::string_view name = base_name(path);
    if (name.starts_with("libpypy")) throw Implausible("it is PyPy, not CPython");
    if (step == 0 || name.starts_with("libpython"))
      if (const auto python = python_in(memory, read_object(memory, library[0], library[2]))) return *python;
    at = library[3];
  }
  throw Implausible("it is not CPython");
}

}  // namespace rankshim::look
