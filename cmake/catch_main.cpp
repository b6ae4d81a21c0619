// Catch2's main for rankshim_test, in a separate file because it is slow to compile. (Catch2 3 brings its
// own.)
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
