#pragma once

#include <string>
#include <string_view>

namespace rankshim {

/// Completes the beginning of a JSON document: closes the string, lists and objects that are open at its end.
/// A character or an escape that the end cuts is removed, and a member without a value becomes null. The
/// result of other texts is not valid JSON either.
std::string closed_json(std::string_view beginning);

}  // namespace rankshim
