# The header-only libraries, seen through a folder of links to just them: so a cross build takes them from the system
# without taking the system's libc headers along.
set(headers_dir "${PROJECT_BINARY_DIR}/headers")
set(headers_definitions
    "FMT_STATIC_THOUSANDS_SEPARATOR=','"
    FMT_INLINE=inline  # else everything is copied to each place that formats: 4 kB
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
    BOOST_ASIO_SEPARATE_COMPILATION  # cmake/asio.cpp
    BOOST_ASIO_DISABLE_THREADS
    BOOST_ASIO_NO_DEPRECATED
    BOOST_NO_EXCEPTIONS  # shim/supervise/last_resort.cpp
    BOOST_DISABLE_CURRENT_LOCATION
    _LARGEFILE64_SOURCE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND RANKSHIM_STATIC)
  # clang refuses spdlog 1.12's strings as constant expressions (https://github.com/fmtlib/fmt/issues/4807); the
  # preset dev checks our formats.
  list(APPEND headers_definitions "FMT_CONSTEVAL=")
endif()

set(libraries boost/asio.hpp spdlog/spdlog.h fmt/format.h toml++/toml.h)
if(NOT RANKSHIM_STATIC)
  list(APPEND libraries catch2)
endif()
foreach(library ${libraries})
  find_path(RANKSHIM_INCLUDE_${library} "${library}" NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  mark_as_advanced(RANKSHIM_INCLUDE_${library})
  string(REGEX REPLACE "/.*" "" folder "${library}")
  file(MAKE_DIRECTORY "${headers_dir}")
  file(CREATE_LINK "${RANKSHIM_INCLUDE_${library}}/${folder}" "${headers_dir}/${folder}" SYMBOLIC)
endforeach()

add_library(headers INTERFACE)
target_include_directories(headers SYSTEM INTERFACE "${headers_dir}")
target_compile_definitions(headers INTERFACE ${headers_definitions})

add_library(fmt STATIC EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/fmt.cpp")
target_link_libraries(fmt PUBLIC headers)

add_library(asio STATIC EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/asio.cpp")
target_compile_options(asio PRIVATE ${words_of_exceptions})
target_link_libraries(asio PUBLIC headers)
# Two calls of the kernel (shim/wait/event_loop_step.cpp). zig's command line knows no --wrap:
# release/zig-link.
if(NOT CMAKE_CXX_COMPILER_TARGET MATCHES "musl")
  target_link_options(asio INTERFACE -Wl,--wrap=epoll_wait,--wrap=timerfd_create)
endif()
