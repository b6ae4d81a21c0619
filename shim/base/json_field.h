#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rankshim::json {

/// The largest number of dots in a path.
inline constexpr unsigned deepest_path = 32;

/// Why the text is no JSON document (RFC 8259), such as "unexpected end of data at byte 17"; empty if it is
/// one. Within strings, bytes that are not UTF-8 may pass, and so may half a surrogate pair (`\ud83d`), which
/// is read as U+FFFD.
std::string error(std::string_view document);

/// The value at a path in a JSON document. A path is members' names and lists' indices (from 0) joined by
/// dots; `*` means every member or element in turn (`server_list.*.server_id`). A string gives its text,
/// another scalar its JSON spelling, a list of scalars its elements joined by commas, and any other list or
/// object its JSON text. The values that `*` finds are joined by commas too, without those that are missing.
/// Returns nothing if the path leads nowhere, to null or to an empty text, or if the document is no JSON.
/// Time is bounded by the document's length times the path's, memory by thirty times the document's length.
std::optional<std::string> field(std::string_view document, std::string_view path);

}  // namespace rankshim::json
