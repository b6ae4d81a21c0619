#include "look/python_text.h"

#include <catch2/catch.hpp>

#include "look/memory_for_test.h"

using namespace rankshim;
using look::Implausible;

namespace {

constexpr std::uint64_t text_address = 0x1000;
constexpr look::PythonOffsets text_offsets{
    .text_length = 16, .text_state = 32, .ascii_text = 40, .other_text = 56};  // of 3.12

constexpr std::uint32_t is_compact = 1U << 5U, is_ascii = 1U << 6U;

/// A str as Python has it: `kind` bytes for each character.
std::string text_of(std::int64_t length, unsigned kind, std::uint32_t flags, std::string_view raw) {
  look::FakeMemory fake;
  fake.put_value(text_address + 16, length);
  fake.put_value(text_address + 32, std::uint32_t{kind << 2U | flags});
  fake.put(text_address + ((flags & is_ascii) != 0 ? 40 : 56), raw);
  look::Memory memory = fake.memory();
  return look::read_text(memory, text_offsets, text_address);
}

}  // namespace

TEST_CASE("a Python text is read as UTF-8 in each of its forms") {
  CHECK(text_of(8, 1, is_compact | is_ascii, "train.py") == "train.py");
  CHECK(text_of(0, 1, is_compact | is_ascii, "").empty());
  CHECK(text_of(3, 1, is_compact, "gr\xFC") == "grü");
  CHECK(text_of(2, 2, is_compact, std::string_view("\xAD\x8B\xC3\x7E", 4)) == "训练");
  CHECK(text_of(2, 4, is_compact, std::string_view("\x80\xF6\x01\x00\x61\x00\x00\x00", 8)) == "🚀a");
  // A byte of a file's name that is no UTF-8 (PEP 383), half a pair, and what is no character at all.
  CHECK(text_of(2, 2, is_compact, std::string_view("\x61\x00\xE9\xDC", 4)) == "aé");
  CHECK(text_of(1, 2, is_compact, std::string_view("\x00\xD8", 2)) == "\uFFFD");
  CHECK(text_of(1, 4, is_compact, "\xFF\xFF\xFF\xFF") == "\uFFFD");
  CHECK(text_of(1, 1, is_compact | is_ascii, "\xFF") == "ÿ");  // it lies
}

TEST_CASE("what is no Python text is not read as one", "[attack]") {
  CHECK_THROWS_AS(text_of(1, 1, is_ascii, "a"), Implausible);  // not compact
  CHECK_THROWS_AS(text_of(1, 3, is_compact, "abc"), Implausible);
  CHECK_THROWS_AS(text_of(1, 0, is_compact, "a"), Implausible);
  CHECK_THROWS_AS(text_of(-1, 1, is_compact | is_ascii, "a"), Implausible);
  CHECK_THROWS_AS(text_of(4097, 1, is_compact | is_ascii, std::string(4097, 'a')), Implausible);
  CHECK_THROWS_AS(text_of(INT64_MAX, 4, is_compact, "a"), Implausible);
  CHECK(text_of(4096, 1, is_compact | is_ascii, std::string(4096, 'a')).size() == 4096);
}
