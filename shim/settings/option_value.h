#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "settings/options.h"

/// The values that an option can have, by its kind.
namespace rankshim {

/// The value as it is stored ("1" becomes "true"); nothing if the kind does not allow it.
std::optional<std::string> normalise(const OptionInfo& option, std::string_view text);

/// A description of what the kind allows, for a message such as "… is not a number".
std::string wanted(const OptionInfo& option);

/// The separator of an option that takes a list; '\0' if it takes none.
char separator(ValueKind kind);

/// Whether the value is one of the choices, "text|json".
bool is_one_of(std::string_view value, std::string_view choices);

/// "text, json" of "text|json".
std::string with_commas(std::string_view choices);

}  // namespace rankshim
