#pragma once

#include <string>
#include <string_view>

namespace rankshim {

/// The beginning of a JSON document as a document: the string, lists and objects that are open at its end are
/// closed. A character or an escape that the end cuts is left out, and a member that has no value yet is
/// null. What was no JSON before stays none.
std::string closed_json(std::string_view beginning);

}  // namespace rankshim
