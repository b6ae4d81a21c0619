#include "look/python_lines.h"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "base/text.h"

using namespace rankshim;

namespace {

/// What a compiled function says of itself: its table, and in which line the instructions from a byte on are
/// (code.co_lines(), and dis.findlinestarts() before 3.10); 0 is no line.
struct Compiled {
  const char* python;
  const char* function;
  const char* table;  ///< bytes.hex()
  std::vector<std::pair<int, unsigned>> lines;
};

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t at = 0; at < hex.size(); at += 2)
    bytes += static_cast<char>(*parse_number<int>(hex.substr(at, 2), 16));
  return bytes;
}

// Each begins in line 1:
//   def far(a):                 def back(f):             def gen(n):
//       a += 1                      return f(                for i in range(n):
//       (300 empty lines)               1,                       yield i
//       a += 2                          f(2),
//       return a                        [x for x in (
//                                           3, 4)])
//   def raising(f):             `try: f()`, `except ValueError as e: return 1`, `finally: f()`, and a `with`
const std::vector<Compiled> by_lnotab{
    {"3.8", "far", "0001087f007f002f0801", {{0, 2}, {8, 303}, {16, 304}, {18, 304}}},
    {"3.9", "back", "00010201020106010cfd", {{0, 2}, {2, 3}, {4, 4}, {10, 5}, {22, 2}, {24, 2}}},
    {"3.9",
     "raising",
     "000104010a010e010c0206fe1002100106010401",
     {{0, 2}, {4, 3}, {14, 4}, {28, 5}, {40, 7}, {46, 5}, {62, 7}, {78, 8}, {84, 9}, {88, 10}, {128, 10}}},
};
const std::vector<Compiled> by_line_table{
    {"3.10", "far", "0801007f007f082f0401", {{0, 2}, {8, 303}, {16, 304}, {18, 304}}},
    {"3.10", "back", "0201020106010c0104fd", {{0, 2}, {2, 3}, {4, 4}, {10, 5}, {22, 2}, {24, 2}}},
    {"3.10", "gen", "02800c01080104ff", {{0, 0}, {2, 2}, {14, 3}, {22, 2}, {24, 2}}},
    {"3.10", "of 200 arguments", "fe01fe00fe003000", {{0, 2}, {808, 2}}},
    {"3.10",
     "raising",
     "04010a010e010c010a02088002fd02ff100406010401060106ff0eff020122ff",
     {{0, 2},
      {4, 3},
      {14, 4},
      {28, 5},
      {40, 7},
      {50, 0},
      {58, 4},
      {60, 3},
      {62, 7},
      {78, 8},
      {84, 9},
      {88, 10},
      {94, 9},
      {100, 8},
      {114, 9},
      {116, 8},
      {148, 8}}},
};
const std::vector<Compiled> by_location_table{
    {"3.11",
     "far",
     "8000d80405881181468041f05a09000506881181468041d80b0c8048",
     {{0, 1}, {2, 2}, {12, 303}, {22, 304}, {24, 304}}},
    {"3.11",
     "gen",
     "e800e8008000dd0d12903189588c58f000010510f0000105108801d80e0f8807880788078807f003010510f000010510",
     {{0, 1}, {6, 2}, {40, 3}, {50, 2}, {52, 2}}},
    {"3.12",
     "back",
     "8000d90b0cd80809d9080988218b04f002011512f60001091388718a11f200010913f307040c14f000040514f9f206010913",
     {{0, 1}, {2, 2}, {6, 3}, {8, 4}, {22, 5}, {52, 2}, {62, 0}, {66, 5}, {70, 5}}},
    {"3.13",
     "raising",
     "8000f00205050cd908098d03f10800090a8c03d9090a8861de0e0fd90c0d8c43f703000f108861f703000a0b8811f8f409000c1"
     "6f"
     "300010511db0f10e108098d03fbf007010511fbf10600090a8d03fadf090a8d11fa",
     {{0, 1},   {2, 2},   {4, 3},   {20, 7},  {34, 8},  {40, 9},  {54, 10},
      {68, 9},  {86, 8},  {104, 0}, {106, 4}, {124, 5}, {132, 7}, {148, 0},
      {156, 4}, {158, 0}, {166, 7}, {182, 0}, {188, 8}, {216, 0}, {220, 0}}},
    {"3.14",
     "far",
     "8000d80405881185468041f05a09000506881185468041d80b0c8048",
     {{0, 1}, {2, 2}, {20, 303}, {38, 304}, {40, 304}}},
};

void check(unsigned (*line)(std::string_view, std::int64_t, std::int64_t), const std::vector<Compiled>& all) {
  for (const Compiled& one : all) {
    INFO(one.python << " " << one.function);
    const std::string table = from_hex(one.table);
    unsigned before = one.lines.front().second;
    for (const auto& [instruction, expected] : one.lines) {
      INFO("instruction " << instruction);
      CHECK(line(table, 1, instruction) == expected);
      if (instruction > 0) CHECK(line(table, 1, instruction - 2) == before);  // until there it was that line
      before = expected;
    }
  }
}

}  // namespace

TEST_CASE("the line of an instruction is the one that Python itself says, in all three forms of its tables") {
  check(look::line_by_lnotab, by_lnotab);
  check(look::line_by_line_table, by_line_table);
  check(look::line_by_location_table, by_location_table);
}

TEST_CASE("a table of lines that was cut or is none at all gives some line, and no more", "[attack]") {
  constexpr std::int64_t far = std::int64_t{1} << 40U;
  for (const auto line : {look::line_by_lnotab, look::line_by_line_table, look::line_by_location_table}) {
    for (const std::vector<Compiled>& all : {by_lnotab, by_line_table, by_location_table})
      for (const Compiled& one : all) {
        const std::string table = from_hex(one.table);
        for (std::size_t size = 0; size <= table.size(); ++size) line(table.substr(0, size), 1, far);
      }
    CHECK(line("", 7, 0) == 7);
    CHECK(line("", -7, 0) == 0);
    line(std::string(1000, '\xFF'), INT32_MAX, far);
    line(std::string(1000, '\x7F'), INT32_MIN, far);
  }
}
