# The compiler of the presets dev and asan: clang compiles in a fifth of g++ 12's time with the sanitizers, and it has
# libFuzzer. scripts/setup installs 19 on Debian 12 and 18 on Ubuntu 24.04.
find_program(RANKSHIM_CLANG NAMES clang-19 clang-18 clang REQUIRED DOC "clang, for C")
find_program(RANKSHIM_CLANGXX NAMES clang++-19 clang++-18 clang++ REQUIRED DOC "clang, for C++")
set(CMAKE_C_COMPILER "${RANKSHIM_CLANG}")
set(CMAKE_CXX_COMPILER "${RANKSHIM_CLANGXX}")
# A link takes a third of the time that binutils' linker needs, and the targets of fuzz/ are many.
set(CMAKE_EXE_LINKER_FLAGS_INIT -fuse-ld=lld)
