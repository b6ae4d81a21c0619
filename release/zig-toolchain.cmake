# zig c++ (clang, libc++ and musl for every architecture) from PyPI's ziglang, which scripts/setup puts into .venv.
set(RANKSHIM_ARCH "x86_64" CACHE STRING "x86_64 or aarch64")
if(NOT RANKSHIM_ZIG)
  file(GLOB zigs "${CMAKE_CURRENT_LIST_DIR}/../.venv/lib/python3*/site-packages/ziglang/zig")
  list(APPEND zigs "")
  list(GET zigs 0 zig)
  set(RANKSHIM_ZIG "${zig}" CACHE FILEPATH "the zig executable")
endif()
if(NOT EXISTS "${RANKSHIM_ZIG}")
  message(FATAL_ERROR "no zig at '${RANKSHIM_ZIG}': run scripts/setup, or set RANKSHIM_ZIG")
endif()

# CMake wants programs of one word each. Try-compiles read this file again: they get the first run's folder.
if(NOT RANKSHIM_ZIG_TOOLS)
  set(RANKSHIM_ZIG_TOOLS "${CMAKE_BINARY_DIR}/zig-tools")
  get_filename_component(zig_folder "${RANKSHIM_ZIG}" DIRECTORY)
  # zig's cache knows what it has compiled by the path of zig's sources. Seen from the folder of the build that is the same
  # in each checkout, so a second one finds musl and libc++ there. (CMake's checks run in other folders.)
  set(zig_sources zig-tools/lib)
  file(MAKE_DIRECTORY "${RANKSHIM_ZIG_TOOLS}")
  file(CREATE_LINK "${zig_folder}/lib" "${CMAKE_BINARY_DIR}/${zig_sources}" SYMBOLIC)
  foreach(tool cc c++ ar ranlib)
    file(WRITE "${RANKSHIM_ZIG_TOOLS}/${tool}"
         "#!/bin/sh\n[ ! -d ${zig_sources} ] || export ZIG_LIB_DIR=${zig_sources}\nexec '${RANKSHIM_ZIG}' ${tool} \"$@\"\n")
    file(CHMOD "${RANKSHIM_ZIG_TOOLS}/${tool}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  endforeach()
  # The first link compiles musl and libc++ into zig's cache: with two processors one file at a time, unless -j says more,
  # which zig c++ does not know.
  file(WRITE "${RANKSHIM_ZIG_TOOLS}/empty.cpp" "int main() {}\n")
  set(ENV{ZIG_LIB_DIR} ${zig_sources})
  execute_process(COMMAND "${RANKSHIM_ZIG}" build-exe -j8 "${RANKSHIM_ZIG_TOOLS}/empty.cpp" -target "${RANKSHIM_ARCH}-linux-musl"
                          -lc -lc++ -static -fstrip -flto -O ReleaseSmall "-femit-bin=${RANKSHIM_ZIG_TOOLS}/empty"
                  WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" COMMAND_ERROR_IS_FATAL ANY)
  unset(ENV{ZIG_LIB_DIR})
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RANKSHIM_ARCH RANKSHIM_ZIG RANKSHIM_ZIG_TOOLS)

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${RANKSHIM_ARCH}")
set(CMAKE_C_COMPILER "${RANKSHIM_ZIG_TOOLS}/cc")
set(CMAKE_CXX_COMPILER "${RANKSHIM_ZIG_TOOLS}/c++")
foreach(language C CXX)
  set(CMAKE_${language}_COMPILER_TARGET "${RANKSHIM_ARCH}-linux-musl")
  set(CMAKE_${language}_COMPILER_AR "${RANKSHIM_ZIG_TOOLS}/ar")
  set(CMAKE_${language}_COMPILER_RANLIB "${RANKSHIM_ZIG_TOOLS}/ranlib")
endforeach()
set(CMAKE_AR "${RANKSHIM_ZIG_TOOLS}/ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "${RANKSHIM_ZIG_TOOLS}/ranlib" CACHE FILEPATH "")

# CMake's checks need no linking: it would build libc++ a second time, without our flags, which takes minutes.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

# Nothing of this machine's belongs into the binary but the headers that cmake/headers.cmake names.
set(CMAKE_FIND_ROOT_PATH "${CMAKE_CURRENT_LIST_DIR}/nothing")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
