# The header-only libraries, seen through a folder of links to just them: so a cross build takes them from the system
# without taking the system's libc headers along.
set(headers_dir "${PROJECT_BINARY_DIR}/headers")
set(headers_definitions
    FMT_HEADER_ONLY
    "FMT_STATIC_THOUSANDS_SEPARATOR=','"
    FMT_USE_FLOAT=0  # we format no floating-point number (one would come out empty)
    FMT_USE_DOUBLE=0
    FMT_USE_LONG_DOUBLE=0
    FMT_USE_INT128=0
    SPDLOG_NO_EXCEPTIONS  # else its handler of errors in formatting brings strftime, time zones and fprintf along
    SPDLOG_NO_THREAD_ID
    SPDLOG_NO_TLS
    SPDLOG_NO_ATOMIC_LEVELS
    SPDLOG_DISABLE_DEFAULT_LOGGER
    TOML_ENABLE_FORMATTERS=0
    TOML_EXCEPTIONS=0
    TOML_FLOAT_CHARCONV=1  # else toml++ parses floats by stringstream and locale
    BOOST_ASIO_DISABLE_THREADS
    BOOST_ASIO_NO_DEPRECATED
    BOOST_ASIO_HAS_TIMERFD=1  # Asio looks for glibc only; without it an idle loop on musl wakes every 300 s
    BOOST_DISABLE_CURRENT_LOCATION
    _LARGEFILE64_SOURCE)

foreach(library boost/asio.hpp spdlog/spdlog.h fmt/format.h toml++/toml.h catch2)
  find_path(RANKSHIM_INCLUDE_${library} "${library}" NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  mark_as_advanced(RANKSHIM_INCLUDE_${library})
  string(REGEX REPLACE "/.*" "" folder "${library}")
  file(MAKE_DIRECTORY "${headers_dir}")
  file(CREATE_LINK "${RANKSHIM_INCLUDE_${library}}/${folder}" "${headers_dir}/${folder}" SYMBOLIC)
endforeach()

add_library(headers INTERFACE)
target_include_directories(headers SYSTEM INTERFACE "${headers_dir}")
target_compile_definitions(headers INTERFACE ${headers_definitions})

# Catch2 2 is one header; 3 (Ubuntu 24.04) is a library with others.
add_library(catch2 INTERFACE)
target_link_libraries(catch2 INTERFACE headers)
if(NOT EXISTS "${headers_dir}/catch2/catch.hpp")
  find_package(Catch2 3 REQUIRED)
  file(WRITE "${PROJECT_BINARY_DIR}/catch3/catch2/catch.hpp" "#include <catch2/catch_all.hpp>\nusing namespace Catch;\n")
  target_include_directories(catch2 SYSTEM INTERFACE "${PROJECT_BINARY_DIR}/catch3")
  target_link_libraries(catch2 INTERFACE Catch2::Catch2WithMain)
endif()
