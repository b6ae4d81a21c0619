#include <cwctype>

#include <locale.h>  // locale_t, which is POSIX'

/// Replaces musl's tables of the world's letters, which only its regcomp uses: 12 kB less. Nothing
/// here sets a locale, and in the C locale musl reads a byte above 127 as a character that is neither a
/// letter nor punctuation (MB_CUR_MAX is 1), so only those of ASCII are left. The functions with _l are there
/// because musl defines them together with the others, and libc++ refers to them.
namespace {

bool is_between(std::wint_t c, char first, char last) {
  return c >= static_cast<std::wint_t>(first) && c <= static_cast<std::wint_t>(last);
}

constexpr std::wint_t between_cases = 'a' - 'A';

}  // namespace

extern "C" {

std::wint_t towlower(std::wint_t c) { return is_between(c, 'A', 'Z') ? c + between_cases : c; }
std::wint_t towupper(std::wint_t c) { return is_between(c, 'a', 'z') ? c - between_cases : c; }
int iswalpha(std::wint_t c) { return is_between(towlower(c), 'a', 'z') ? 1 : 0; }
int iswpunct(std::wint_t c) {
  return is_between(c, '!', '~') && !is_between(c, '0', '9') && iswalpha(c) == 0 ? 1 : 0;
}

std::wint_t towlower_l(std::wint_t c, locale_t /*locale*/) { return towlower(c); }
std::wint_t towupper_l(std::wint_t c, locale_t /*locale*/) { return towupper(c); }
int iswalpha_l(std::wint_t c, locale_t /*locale*/) { return iswalpha(c); }
int iswpunct_l(std::wint_t c, locale_t /*locale*/) { return iswpunct(c); }
}
