# c-ares from the pinned source that scripts/setup unpacks (distributions carry one without ares_query_dnsrec).
# Built as a part of ours, with our flags and a configuration that is written down (cmake/cares/ares_config.h).
set(RANKSHIM_CARES_SOURCE "${PROJECT_SOURCE_DIR}/.venv/share/c-ares" CACHE PATH "the source of c-ares 1.34")
if(NOT EXISTS "${RANKSHIM_CARES_SOURCE}/include/ares.h")
  message(FATAL_ERROR "no c-ares source in ${RANKSHIM_CARES_SOURCE}: run scripts/setup, or set RANKSHIM_CARES_SOURCE")
endif()

file(GLOB_RECURSE cares_sources "${RANKSHIM_CARES_SOURCE}/src/lib/*.c")
add_library(cares STATIC EXCLUDE_FROM_ALL ${cares_sources})
target_include_directories(cares SYSTEM PUBLIC "${PROJECT_SOURCE_DIR}/cmake/cares" "${RANKSHIM_CARES_SOURCE}/include")
target_include_directories(cares PRIVATE "${RANKSHIM_CARES_SOURCE}/src/lib" "${RANKSHIM_CARES_SOURCE}/src/lib/include")
target_compile_definitions(cares PUBLIC CARES_STATICLIB CARES_NO_DEPRECATED)
target_compile_definitions(cares PRIVATE HAVE_CONFIG_H=1 CARES_BUILDING_LIBRARY _GNU_SOURCE)
# It parses what strangers send, in C: the one part whose stack frames are guarded (for all it would be 20 kB).
target_compile_options(cares PRIVATE -w -fstack-protector-strong)
if(RANKSHIM_STATIC)
  target_compile_options(cares PRIVATE "-ffile-prefix-map=${RANKSHIM_CARES_SOURCE}=c-ares")
endif()
