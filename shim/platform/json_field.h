#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rankshim::platform {

/// Objects and lists may be nested this deep; what lies deeper makes the document unusable.
inline constexpr unsigned deepest_json = 32;

/// What a path leads to in a JSON document (RFC 8259): members' names and lists' indices from 0, by dots, `*`
/// being every member or element in turn (`server_list.*.server_id`). A string is its text, another scalar as
/// it is written, an object or list as the JSON text that it is, a list of scalars its elements by comma;
/// what `*` leads to stands by comma too, each as the same path without it would give it, what is not there
/// left out. Nothing where the path leads nowhere, to null or to an empty text, or where the document is
/// malformed up to the place. Time is bounded by the document's length times the path's, memory by the
/// document's length.
std::optional<std::string> json_field(std::string_view document, std::string_view path);

}  // namespace rankshim::platform
