#include "look/python_text.h"

#include <catch2/catch.hpp>

#include "look/memory_for_test.h"

using namespace rankshim;
using look::Implausible;

namespace {

constexpr std::uint64_t address = 0x1000;
constexpr look::PythonOffsets offsets{
    .text_length = 16, .text_state = 32, .ascii_text = 40, .other_text = 56};  // of 3.12

constexpr std::uint32_t compact = 1U << 5U, ascii = 1U << 6U;

/// A str as Python has it: `kind` bytes for each character.
std::string text_of(std::int64_t length, unsigned kind, std::uint32_t flags, std::string_view raw) {
  look::FakeMemory fake;
  fake.put_value(address + 16, length);
  fake.put_value(address + 32, std::uint32_t{kind << 2U | flags});
  fake.put(address + ((flags & ascii) != 0 ? 40 : 56), raw);
  look::Memory memory = fake.memory();
  return look::read_text(memory, offsets, address);
}

}  // namespace

TEST_CASE("a Python text is read as UTF-8 in each of its forms") {
  CHECK(text_of(8, 1, compact | ascii, "train.py") == "train.py");
  CHECK(text_of(0, 1, compact | ascii, "").empty());
  CHECK(text_of(3, 1, compact, "gr\xFC") == "grü");
  CHECK(text_of(2, 2, compact, std::string_view("\xAD\x8B\xC3\x7E", 4)) == "训练");
  CHECK(text_of(2, 4, compact, std::string_view("\x80\xF6\x01\x00\x61\x00\x00\x00", 8)) == "🚀a");
  // A byte of a file's name that is no UTF-8 (PEP 383), half a pair, and what is no character at all.
  CHECK(text_of(2, 2, compact, std::string_view("\x61\x00\xE9\xDC", 4)) == "aé");
  CHECK(text_of(1, 2, compact, std::string_view("\x00\xD8", 2)) == "\uFFFD");
  CHECK(text_of(1, 4, compact, "\xFF\xFF\xFF\xFF") == "\uFFFD");
  CHECK(text_of(1, 1, compact | ascii, "\xFF") == "ÿ");  // it lies
}

TEST_CASE("what is no Python text is not read as one") {
  CHECK_THROWS_AS(text_of(1, 1, ascii, "a"), Implausible);  // not compact
  CHECK_THROWS_AS(text_of(1, 3, compact, "abc"), Implausible);
  CHECK_THROWS_AS(text_of(1, 0, compact, "a"), Implausible);
  CHECK_THROWS_AS(text_of(-1, 1, compact | ascii, "a"), Implausible);
  CHECK_THROWS_AS(text_of(4097, 1, compact | ascii, std::string(4097, 'a')), Implausible);
  CHECK_THROWS_AS(text_of(INT64_MAX, 4, compact, "a"), Implausible);
  CHECK(text_of(4096, 1, compact | ascii, std::string(4096, 'a')).size() == 4096);
}
