#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rankshim::json {

/// A path may have this many dots.
inline constexpr unsigned deepest_path = 32;

/// Why the text is no JSON document (RFC 8259), such as "unexpected end of data at byte 17"; empty where it
/// is one. Bytes that are no UTF-8 may pass within strings, and so may the half of a surrogate pair
/// (`\ud83d`), which is read as U+FFFD.
std::string error(std::string_view document);

/// What a path leads to in a JSON document: members' names and lists' indices from 0, by dots, `*` being
/// every member or element in turn (`server_list.*.server_id`). A string is its text, another scalar as it is
/// written, an object or list as the JSON text that it is, a list of scalars its elements by comma; what `*`
/// leads to stands by comma too, each as the same path without it would give it, what is not there left out.
/// Nothing where the path leads nowhere, to null or to an empty text, or where the document is none. Time is
/// bounded by the document's length times the path's, memory by thirty times the document's length.
std::optional<std::string> field(std::string_view document, std::string_view path);

}  // namespace rankshim::json
