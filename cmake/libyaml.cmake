# libyaml from the pinned source that scripts/setup unpacks: distributions have it for one libc only. The part that reads,
# built as a part of ours, with our flags.
set(RANKSHIM_LIBYAML_SOURCE "${PROJECT_SOURCE_DIR}/.venv/share/libyaml" CACHE PATH "the source of libyaml 0.2.5")
if(NOT EXISTS "${RANKSHIM_LIBYAML_SOURCE}/include/yaml.h")
  message(FATAL_ERROR "no libyaml source in ${RANKSHIM_LIBYAML_SOURCE}: run scripts/setup, or set RANKSHIM_LIBYAML_SOURCE")
endif()

set(libyaml_sources api parser reader scanner)
list(TRANSFORM libyaml_sources PREPEND "${RANKSHIM_LIBYAML_SOURCE}/src/")
list(TRANSFORM libyaml_sources APPEND .c)
add_library(libyaml STATIC EXCLUDE_FROM_ALL ${libyaml_sources})
target_include_directories(libyaml SYSTEM PUBLIC "${RANKSHIM_LIBYAML_SOURCE}/include")
target_compile_definitions(libyaml PRIVATE
                           "YAML_VERSION_STRING=\"0.2.5\"" YAML_VERSION_MAJOR=0 YAML_VERSION_MINOR=2 YAML_VERSION_PATCH=5)
target_compile_options(libyaml PRIVATE -w)
if(RANKSHIM_STATIC)
  target_compile_options(libyaml PRIVATE "-ffile-prefix-map=${RANKSHIM_LIBYAML_SOURCE}=libyaml")
endif()
