#pragma once

/// Catch2 3 by the names of version 2: its headers are others, and one matcher has another name.

#include <catch2/catch_all.hpp>
#include <string>

namespace Catch {

using Matchers::EndsWith;
using Matchers::StartsWith;
using Matchers::VectorContains;
inline auto Contains(const std::string& text) { return Matchers::ContainsSubstring(text); }

}  // namespace Catch
