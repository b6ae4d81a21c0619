# yyjson from the pinned source that scripts/setup unpacks: distributions have it for one libc only, and Debian 12's is
# older. One file, built as a part of ours, with our flags.
set(RANKSHIM_YYJSON_SOURCE "${PROJECT_SOURCE_DIR}/.venv/share/yyjson" CACHE PATH "the source of yyjson")
if(NOT EXISTS "${RANKSHIM_YYJSON_SOURCE}/yyjson.c")
  message(FATAL_ERROR "no yyjson source in ${RANKSHIM_YYJSON_SOURCE}: run scripts/setup, or set RANKSHIM_YYJSON_SOURCE")
endif()

add_library(yyjson STATIC EXCLUDE_FROM_ALL "${RANKSHIM_YYJSON_SOURCE}/yyjson.c")
target_include_directories(yyjson SYSTEM PUBLIC "${RANKSHIM_YYJSON_SOURCE}")
target_compile_definitions(yyjson PUBLIC YYJSON_DISABLE_UTILS=1)
target_compile_options(yyjson PRIVATE -w)
if(RANKSHIM_STATIC)
  target_compile_options(yyjson PRIVATE "-ffile-prefix-map=${RANKSHIM_YYJSON_SOURCE}=yyjson")
endif()
