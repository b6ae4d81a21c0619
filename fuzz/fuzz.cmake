# Fuzzing by clang's libFuzzer: fuzz/NAME.cpp is one target, and corpus/NAME in fuzz/corpus.tar.gz has its seeds.
# Included with the sanitizers only: the image's build has no fuzz folder.

file(GLOB fuzz_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/fuzz/*.cpp")
add_executable(fuzz EXCLUDE_FROM_ALL ${fuzz_sources})
target_link_libraries(fuzz PRIVATE rankshim_parts)
target_link_options(fuzz PRIVATE -fsanitize=fuzzer)
set_target_properties(fuzz PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  target_precompile_headers(fuzz REUSE_FROM rankshim_parts)
endif()
