# Fuzzing by clang's libFuzzer: fuzz/NAME.cpp is one target, fuzz/corpus/NAME its seeds. Included with RANKSHIM_FUZZ only:
# the image's build has no fuzz folder.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "RANKSHIM_FUZZ needs clang++ (the preset fuzz chooses it)")
endif()

set(fuzz_folders base node pod platform settings topology)
list(TRANSFORM fuzz_folders REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/shim/\\1/*.cpp")
file(GLOB fuzz_parts CONFIGURE_DEPENDS ${fuzz_folders})
list(FILTER fuzz_parts EXCLUDE REGEX "_test\\.cpp$|/compile_profiles\\.cpp$")
add_library(fuzz_parts OBJECT EXCLUDE_FROM_ALL ${fuzz_parts} shim/wait/names.cpp
            "${generated}/builtin_profiles.inc")
target_include_directories(fuzz_parts PUBLIC shim "${generated}")
target_compile_definitions(fuzz_parts PUBLIC "RANKSHIM_VERSION=\"${PROJECT_VERSION}\"")
# Not optimised: it compiles in a third of the time, and the inputs are small.
target_compile_options(fuzz_parts PUBLIC -O0 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
target_link_libraries(fuzz_parts PUBLIC headers fmt yyjson)

add_custom_target(fuzz)
file(GLOB fuzz_targets CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/fuzz/*.cpp")
foreach(source ${fuzz_targets})
  get_filename_component(name "${source}" NAME_WE)
  add_executable(fuzz_${name} EXCLUDE_FROM_ALL "${source}")
  target_link_libraries(fuzz_${name} PRIVATE fuzz_parts)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  add_dependencies(fuzz fuzz_${name})
endforeach()
