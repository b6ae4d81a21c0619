# The header-only libraries, seen through a folder of links to just them: so a cross build takes them from the system
# without taking the system's libc headers along.
set(headers_dir "${PROJECT_BINARY_DIR}/headers")
set(headers_definitions
    "FMT_STATIC_THOUSANDS_SEPARATOR=','"  # else fmt brings std::locale along
    SPDLOG_COMPILED_LIB  # cmake/spdlog.cpp
    SPDLOG_NO_THREAD_ID
    SPDLOG_NO_TLS
    SPDLOG_NO_ATOMIC_LEVELS
    SPDLOG_DISABLE_DEFAULT_LOGGER
    "SPDLOG_LEVEL_NAMES={\"trace\", \"debug\", \"info\", \"warn\", \"error\", \"critical\", \"off\"}"
    TOML_ENABLE_FORMATTERS=0
    TOML_EXCEPTIONS=0  # a fault of a user's file is a value
    TOML_FLOAT_CHARCONV=1  # else toml++ parses floats by stringstream and locale
    BOOST_ASIO_SEPARATE_COMPILATION  # cmake/asio.cpp
    BOOST_ASIO_DISABLE_THREADS
    BOOST_ASIO_NO_DEPRECATED
    BOOST_ASIO_DISABLE_STD_ALIGNED_ALLOC  # Asio then takes its memory from operator new, which has the reserve (loop.h)
    BOOST_ASIO_DISABLE_BOOST_ALIGN
    BOOST_ASIO_HAS_TIMERFD=1  # which Asio knows of glibc only: without it an idle loop wakes up every 5 minutes
    BOOST_DISABLE_CURRENT_LOCATION
    _LARGEFILE64_SOURCE)
if(RANKSHIM_STATIC)
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

# Their parts that are no templates.
foreach(library fmt spdlog asio)
  add_library(${library} STATIC EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/${library}.cpp")
  target_link_libraries(${library} PUBLIC headers)
endforeach()
target_link_libraries(spdlog PUBLIC fmt)
