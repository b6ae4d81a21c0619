# Fuzzing by clang's libFuzzer: fuzz/NAME.cpp is one target, fuzz/corpus/NAME its seeds. Included with the sanitizers only:
# the image's build has no fuzz folder.

# An archive: a target takes what it needs.
add_library(fuzz_parts STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:rankshim_plain> $<TARGET_OBJECTS:rankshim_asio>)
target_link_libraries(fuzz_parts PUBLIC rankshim_common)

add_custom_target(fuzz)
file(GLOB fuzz_targets CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/fuzz/*.cpp")
foreach(source ${fuzz_targets})
  get_filename_component(name "${source}" NAME_WE)
  add_executable(fuzz_${name} EXCLUDE_FROM_ALL "${source}")
  target_link_libraries(fuzz_${name} PRIVATE fuzz_parts)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    target_precompile_headers(fuzz_${name} REUSE_FROM rankshim_plain)
  endif()
  add_dependencies(fuzz fuzz_${name})
endforeach()
