#include "look/python_lines.h"

#include <cstddef>

namespace rankshim::look {
namespace {

constexpr std::int64_t unit = 2;  // the bytes of an instruction
constexpr int no_line = -128;

std::int64_t unsigned_at(std::string_view table, std::size_t at) {
  return static_cast<unsigned char>(table[at]);
}
std::int64_t signed_at(std::string_view table, std::size_t at) { return static_cast<signed char>(table[at]); }

unsigned as_line(std::int64_t line) {
  return line > 0 && line <= INT32_MAX ? static_cast<unsigned>(line) : 0;
}

/// Cuts a number off a table: six bits per byte, lowest first; bit 6 says that another byte follows.
std::uint64_t take_varint(std::string_view& table) {
  constexpr unsigned most_bits = 30;  // as many as fit into a table cannot overflow a sum
  std::uint64_t value = 0;
  for (unsigned shift = 0; !table.empty(); shift += 6) {
    const auto byte = static_cast<unsigned char>(table.front());
    table.remove_prefix(1);
    if (shift < most_bits) value |= std::uint64_t{byte & 0x3FU} << shift;
    if ((byte & 0x40U) == 0) break;
  }
  return value;
}

/// The same, with the sign in the lowest bit.
std::int64_t take_signed_varint(std::string_view& table) {
  const std::uint64_t value = take_varint(table);
  const auto size = static_cast<std::int64_t>(value >> 1U);
  return (value & 1U) != 0 ? -size : size;
}

/// Cuts the line delta of the next entry off a location table, whose first byte is already cut off.
std::int64_t take_lines(std::string_view& table, unsigned kind) {
  constexpr unsigned one_line = 10, no_columns = 13, long_form = 14;
  if (kind == no_columns || kind == long_form) return take_signed_varint(table);
  return kind >= one_line && kind < no_columns ? static_cast<std::int64_t>(kind) - one_line : 0;
}

}  // namespace

unsigned line_by_lnotab(std::string_view table, std::int64_t first, std::int64_t instruction) {
  std::int64_t line = first;
  std::int64_t address = 0;
  for (std::size_t at = 0; at + 1 < table.size(); at += 2) {
    address += unsigned_at(table, at);
    if (address > instruction) break;
    line += signed_at(table, at + 1);
  }
  return as_line(line);
}

unsigned line_by_line_table(std::string_view table, std::int64_t first, std::int64_t instruction) {
  std::int64_t line = first;
  std::int64_t end = 0;
  for (std::size_t at = 0; at + 1 < table.size(); at += 2) {
    const std::int64_t lines = signed_at(table, at + 1);
    end += unsigned_at(table, at);
    if (lines != no_line) line += lines;
    if (end > instruction) return lines == no_line ? 0 : as_line(line);
  }
  return as_line(line);
}

unsigned line_by_location_table(std::string_view table, std::int64_t first, std::int64_t instruction) {
  constexpr unsigned none = 15;
  std::int64_t line = first;
  std::int64_t end = 0;
  while (!table.empty()) {
    const auto byte = static_cast<unsigned char>(table.front());
    const unsigned kind = byte >> 3U & 15U;
    table.remove_prefix(1);
    line += take_lines(table, kind);
    end += ((byte & 7U) + 1) * unit;
    if (end > instruction) return kind == none ? 0 : as_line(line);
    // Only the first byte of an entry has the highest bit set.
    while (!table.empty() && (static_cast<unsigned char>(table.front()) & 0x80U) == 0) table.remove_prefix(1);
  }
  return as_line(line);
}

}  // namespace rankshim::look
