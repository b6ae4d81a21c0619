# Monocypher from the pinned source that scripts/setup unpacks. One file, built as a part of ours, with our flags; the
# linker drops all but keyed BLAKE2b.
set(RANKSHIM_MONOCYPHER_SOURCE "${PROJECT_SOURCE_DIR}/.venv/share/monocypher" CACHE PATH "the source of Monocypher")
if(NOT EXISTS "${RANKSHIM_MONOCYPHER_SOURCE}/monocypher.c")
  message(FATAL_ERROR "no Monocypher source in ${RANKSHIM_MONOCYPHER_SOURCE}: run scripts/setup, or set RANKSHIM_MONOCYPHER_SOURCE")
endif()

add_library(monocypher STATIC EXCLUDE_FROM_ALL "${RANKSHIM_MONOCYPHER_SOURCE}/monocypher.c")
target_include_directories(monocypher SYSTEM PUBLIC "${RANKSHIM_MONOCYPHER_SOURCE}")
target_compile_definitions(monocypher PRIVATE BLAKE2_NO_UNROLLING)  # a few frames a job: small, not fast
target_compile_options(monocypher PRIVATE -w)
if(RANKSHIM_STATIC)
  target_compile_options(monocypher PRIVATE "-ffile-prefix-map=${RANKSHIM_MONOCYPHER_SOURCE}=monocypher")
endif()
