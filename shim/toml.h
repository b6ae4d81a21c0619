#pragma once

/// toml++, without its assertions on what a document may hold. Version 3.3 asserts that a key begins with a
/// key's character before it checks just that, and reports it: `[=]` ends a debug build, and with NDEBUG the
/// compiler may take the check away. Its own header has no switch for it. Everything that parses TOML
/// includes this one, for its functions are inline and there must be one kind of them.

#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/impl/preprocessor.h>
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_assert(true)
#include <toml++/toml.h>
