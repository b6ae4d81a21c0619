#include "look/python_symbols.h"

#include <elf.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "look/memory_for_test.h"

using namespace rankshim;
using look::FakeMemory;
using look::ProgramHeaders;

namespace {

using Names = std::vector<std::string>;

/// How an executable or library is in memory.
struct Image {
  std::uint64_t base = 0x400000;
  Names symbols;  ///< their values are 0x10000, 0x20000, …
  bool by_gnu_hash = true;
  bool relocated = true;  ///< glibc adds the base to the addresses in the dynamic section, musl does not
  bool has_phdr = true;
  std::uint64_t debug = 0;

  [[nodiscard]] ProgramHeaders headers() const { return {.address = base + 64, .count = 3}; }
  [[nodiscard]] std::uint64_t dynamic() const { return base + 0x200; }
  void write(FakeMemory& fake) const;
};

std::uint32_t gnu_hash(std::string_view name) {
  std::uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

void Image::write(FakeMemory& fake) const {
  constexpr std::uint64_t symbol_table = 0x1000, names = 0x2000, hash = 0x3000;
  const auto header = [&](unsigned which, std::uint32_t type, std::uint64_t address) {
    fake.put_value(base + 64 + which * sizeof(Elf64_Phdr), Elf64_Phdr{.p_type = type, .p_vaddr = address});
  };
  header(0, has_phdr ? PT_PHDR : PT_NULL, 64);
  header(1, PT_LOAD, 0);
  header(2, PT_DYNAMIC, 0x200);
  std::uint64_t at = dynamic();
  const auto dynamic_entry = [&](std::int64_t tag, std::uint64_t value) {
    fake.put_value(at, Elf64_Dyn{.d_tag = tag, .d_un = {.d_val = value}});
    at += sizeof(Elf64_Dyn);
  };
  const std::uint64_t added = relocated ? base : 0;
  dynamic_entry(DT_SYMTAB, added + symbol_table);
  dynamic_entry(DT_STRTAB, added + names);
  dynamic_entry(by_gnu_hash ? DT_GNU_HASH : DT_HASH, added + hash);
  dynamic_entry(DT_DEBUG, debug);
  dynamic_entry(DT_NULL, 0);

  std::string all_names(1, '\0');
  fake.put_value(base + symbol_table, Elf64_Sym{});
  std::uint32_t number = 1;
  for (const std::string& name : symbols) {
    fake.put_value(base + symbol_table + number * sizeof(Elf64_Sym),
                   Elf64_Sym{.st_name = static_cast<Elf64_Word>(all_names.size()),
                             .st_shndx = 1,
                             .st_value = 0x10000 * std::uint64_t{number}});
    all_names += name + '\0';
    const bool is_last = number == symbols.size();
    // All are in one bucket: GNU's chain is of their hashes, the other one of the next one's number.
    if (by_gnu_hash)
      fake.put_value(base + hash + 28 + (number - 1) * 4,
                     is_last ? gnu_hash(name) | 1U : gnu_hash(name) & ~1U);
    else
      fake.put_value(base + hash + 12 + number * 4, is_last ? 0U : number + 1);
    ++number;
  }
  fake.put(base + names, all_names);
  const std::uint32_t some = symbols.empty() ? 0 : 1;
  if (by_gnu_hash)
    fake.put_value(base + hash, std::array<std::uint32_t, 7>{1, 1, 1, 0, 0, 0, some});
  else
    fake.put_value(base + hash, std::array<std::uint32_t, 3>{1, number, some});
}

const Names python_3_9{"PyCode_Type", "PyConfig_InitPythonConfig", "PyThreadState_GetFrame", "_PyRuntime"};

std::string why_not(FakeMemory& fake, const Image& image) {
  look::Memory memory = fake.memory();
  try {
    look::find_python(memory, image.headers());
  } catch (const look::Implausible& implausible) {
    return implausible.what();
  }
  return "";
}

/// l_addr, l_name, l_ld, l_next of link.h's struct link_map.
using LinkMap = std::array<std::uint64_t, 4>;
constexpr std::uint64_t r_debug = 0x900000, maps = 0x901000, paths = 0x902000;

}  // namespace

TEST_CASE("CPython is found by its symbols, whichever way the executable was linked and loaded") {
  for (const bool by_gnu_hash : {true, false})
    for (const bool relocated : {true, false})
      for (const bool has_phdr : {true, false}) {
        FakeMemory fake;
        const Image image{
            .symbols = python_3_9, .by_gnu_hash = by_gnu_hash, .relocated = relocated, .has_phdr = has_phdr};
        image.write(fake);
        look::Memory memory = fake.memory();
        const look::Python python = look::find_python(memory, image.headers());
        CHECK(python.code_type == 0x410000);
        CHECK(python.runtime == 0x440000);
        CHECK(python.minor == 9);
      }
}

TEST_CASE("a Python's version is what it was the first to export, or what it says itself since 3.11") {
  struct Case {
    Names also;
    std::uint64_t hex;  ///< at Py_Version
    unsigned minor;
    const char* why_not;
  };
  for (const Case& one : {Case{{}, 0, 0, "it is a Python before 3.8"},
                          {{"PyConfig_InitPythonConfig"}, 0, 8, ""},
                          {{"PyConfig_InitPythonConfig", "PyThreadState_GetFrame"}, 0, 9, ""},
                          {{"PyThreadState_GetFrame", "Py_NewRef"}, 0, 10, ""},
                          {{"Py_Version"}, 0x030B07F0, 11, ""},
                          {{"Py_Version", "Py_NewRef"}, 0x030E0AF0, 14, ""},
                          {{"Py_Version"}, 0x04000000, 0, "it is Python 4"}}) {
    FakeMemory fake;
    Image image{.symbols = {"_PyRuntime", "PyCode_Type"}};
    image.symbols.insert(image.symbols.end(), one.also.begin(), one.also.end());
    image.write(fake);
    fake.put_value(0x430000, one.hex);
    CHECK(why_not(fake, image) == one.why_not);
    look::Memory memory = fake.memory();
    if (one.minor != 0) CHECK(look::find_python(memory, image.headers()).minor == one.minor);
  }
}

TEST_CASE("CPython is found in libpython") {
  FakeMemory fake;
  const Image image{.symbols = {"main"}, .debug = r_debug};
  const Image library{.base = 0x700000, .symbols = python_3_9, .relocated = false};
  image.write(fake);
  library.write(fake);
  fake.put_value(r_debug + 8, maps);
  fake.put_value(maps, LinkMap{image.base, paths, image.dynamic(), maps + 64});
  fake.put_value(maps + 64, LinkMap{library.base, paths + 100, library.dynamic(), 0});
  fake.put(paths + 100, "/usr/lib/libpython3.9.so.1.0");
  look::Memory memory = fake.memory();
  CHECK(look::find_python(memory, image.headers()).runtime == 0x740000);
}

TEST_CASE("CPython is found in a program that was started by ld.so") {
  FakeMemory fake;
  const Image loader{.base = 0x800000, .symbols = {"_r_debug"}, .has_phdr = false};
  const Image program{.base = 0x700000, .symbols = python_3_9};
  loader.write(fake);
  program.write(fake);
  fake.put_value(0x810008, maps);
  fake.put_value(maps, LinkMap{program.base, 0, program.dynamic(), 0});
  look::Memory memory = fake.memory();
  CHECK(look::find_python(memory, loader.headers()).runtime == 0x740000);
}

TEST_CASE("what is no CPython is said to be none") {
  FakeMemory fake;
  Image image{.symbols = {"main"}};
  image.write(fake);
  CHECK(why_not(fake, image) == "it is not CPython");

  image.debug = r_debug;
  image.write(fake);
  fake.put_value(r_debug + 8, maps);
  fake.put_value(maps, LinkMap{image.base, 0, image.dynamic(), maps + 64});
  fake.put_value(maps + 64, LinkMap{0x700000, paths, 0x700200, maps + 64});  // a circle
  fake.put(paths, "/lib/libc.so.6");
  CHECK(why_not(fake, image) == "it is not CPython");
  fake.put(paths, "/lib/libpypy3.9-c.so");
  CHECK(why_not(fake, image) == "it is PyPy, not CPython");

  CHECK(why_not(fake, {.base = 0xA00000}) == "a pointer leads nowhere");
  look::Memory memory = fake.memory();
  CHECK_THROWS_AS(look::find_python(memory, look::parse_auxv("")), look::Implausible);
}

TEST_CASE("hash tables that lie are left", "[attack]") {
  for (const bool by_gnu_hash : {true, false}) {
    FakeMemory fake;
    const Image image{.symbols = {"a", "b"}, .by_gnu_hash = by_gnu_hash};
    image.write(fake);
    const std::uint64_t hash = image.base + 0x3000;
    fake.put_value(hash, std::uint32_t{0});  // no buckets
    CHECK(why_not(fake, image) == "it is not CPython");
    fake.put_value(hash, std::array<std::uint32_t, 4>{1, UINT32_MAX, UINT32_MAX, 0});
    CHECK_FALSE(why_not(fake, image).empty());
    if (by_gnu_hash) continue;
    fake.put_value(hash, std::array<std::uint32_t, 6>{1, 3, 1, 0, 2, 1});  // 1, 2, 1, …
    CHECK(why_not(fake, image) == "it is not CPython");
  }
}
