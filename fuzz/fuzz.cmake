# Fuzzing by clang's libFuzzer: fuzz/NAME.cpp is one target, fuzz/corpus/NAME its seeds. Included with the sanitizers only:
# the image's build has no fuzz folder.

add_custom_target(fuzz)
file(GLOB fuzz_targets CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/fuzz/*.cpp")
foreach(source ${fuzz_targets})
  get_filename_component(name "${source}" NAME_WE)
  add_executable(fuzz_${name} EXCLUDE_FROM_ALL "${source}")
  target_link_libraries(fuzz_${name} PRIVATE rankshim_parts)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    target_precompile_headers(fuzz_${name} REUSE_FROM rankshim_parts)
  endif()
  add_dependencies(fuzz fuzz_${name})
endforeach()
