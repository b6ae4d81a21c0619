#include <charconv>

/// Replaces the C++ library's reader of floating-point numbers, which only toml++ uses: 17 kB less.
/// No key of ours takes such a number, so every one is refused by its type, whatever its value: it is read as
/// 0. (libc++ names it in __charconv/from_chars_floating_point.h. If a later libc++ renames it, libc++'s
/// reader is linked again, and the size shows that.)
std::__from_chars_result<double>
read_as_zero(const char* first, const char* last, std::chars_format format) __asm__(
    "_ZNSt3__127__from_chars_floating_pointIdEENS_19__from_chars_resultIT_EEPKcS5_NS_12chars_formatE");

std::__from_chars_result<double> read_as_zero(const char* first, const char* last,
                                              std::chars_format /*format*/) {
  return {0, last - first, std::errc{}};
}

/// These replace musl's functions, of which yyjson calls one: 8 kB less. yyjson is asked to leave numbers as
/// they are spelled (YYJSON_READ_NUMBER_AS_RAW), so that it does not get here. If it did, it would refuse the
/// number.
extern "C" {

float strtof(const char* text, char** end) {
  if (end != nullptr) *end = const_cast<char*>(text);
  return 0;
}

double strtod(const char* text, char** end) { return strtof(text, end); }
long double strtold(const char* text, char** end) { return strtof(text, end); }
}
