#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Texts from elsewhere: variables, files, other programs' words.
namespace rankshim {

/// The text without the blanks, tabs and ends of lines around it.
std::string_view trimmed(std::string_view text);

/// The length of the well-formed UTF-8 sequence at the start of `text` (RFC 3629); 0 where there is none.
std::size_t utf8_length(std::string_view text);

/// The text as well-formed UTF-8: a byte that belongs to no character is taken as Latin-1.
std::string as_utf8(std::string_view text);

/// A byte as \t, \n, \r or \xNN, as Python's repr() and bash's $'' write it.
std::string escaped(char c);

/// The text as one line that a terminal shows and does not obey: control characters (C0 but for the tab, DEL
/// and C1) and bytes that are no UTF-8 become \n, \r or \xNN.
std::string printable(std::string_view text);

/// A value or name from elsewhere, as every message shows it: a plain word as it is, anything else in the
/// quotes in which bash reads it back, 'a b' or $'3\n'. It is printable, and has no tab.
std::string quoted(std::string_view text);

/// The text in single quotes, as any POSIX shell reads it back: 'it'\''s'.
std::string in_single_quotes(std::string_view text);

/// HOST:PORT; an IPv6 address, with a zone perhaps, gets brackets (RFC 3986 3.2.2) where it has none.
std::string host_port(std::string_view host, std::string_view port);

/// The longest start of a UTF-8 text that has at most `size` bytes and cuts no character.
std::string_view cut(std::string_view text, std::size_t size);

/// Whether two texts are the same, the case of ASCII letters aside.
bool same_but_case(std::string_view a, std::string_view b);

/// Cuts the first line off `text`, without what ends it.
std::string_view take_line(std::string_view& text);

/// Cuts the next word, between blanks, off a line; empty at its end.
std::string_view take_word(std::string_view& line);

}  // namespace rankshim
