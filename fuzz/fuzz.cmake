# Fuzzing by clang's libFuzzer: fuzz/NAME.cpp is one target, fuzz/corpus/NAME its seeds. Included with RANKSHIM_FUZZ only:
# the image's build has no fuzz folder.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "RANKSHIM_FUZZ needs clang++ (the preset fuzz chooses it)")
endif()

# Without coroutines, which clang 14 cannot compile with AddressSanitizer ("Cannot represent a difference across sections").
set(fuzz_parts ${sources})
foreach(source ${sources})
  file(STRINGS "${source}" coroutine REGEX "awaitable|co_spawn" LIMIT_COUNT 1)
  if(coroutine)
    list(REMOVE_ITEM fuzz_parts "${source}")
  endif()
endforeach()
# An archive: a target takes what it needs.
add_library(fuzz_parts STATIC EXCLUDE_FROM_ALL ${fuzz_parts} ${generated_sources})
target_include_directories(fuzz_parts PUBLIC shim "${generated}")
target_compile_definitions(fuzz_parts PUBLIC "RANKSHIM_VERSION=\"${PROJECT_VERSION}\"")
# Not optimised: it compiles in a third of the time, and the inputs are small.
target_compile_options(fuzz_parts PUBLIC -O0 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
# But spdlog's numbers would need fmt's floating point, which the program does not link.
set_property(SOURCE "${PROJECT_SOURCE_DIR}/shim/base/log.cpp" APPEND PROPERTY COMPILE_OPTIONS -O1)
target_link_libraries(fuzz_parts PUBLIC headers fmt cares yyjson)

add_custom_target(fuzz)
file(GLOB fuzz_targets CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/fuzz/*.cpp")
foreach(source ${fuzz_targets})
  get_filename_component(name "${source}" NAME_WE)
  add_executable(fuzz_${name} EXCLUDE_FROM_ALL "${source}")
  target_link_libraries(fuzz_${name} PRIVATE fuzz_parts)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  add_dependencies(fuzz fuzz_${name})
endforeach()
