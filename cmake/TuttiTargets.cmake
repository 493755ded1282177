# Every target of the project is made by one of these functions and names its own dependencies.

include(GNUInstallDirs)

# Language level, warnings and sanitizers of our own code.
function(tutti_configure_target target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  # No contraction: a fused multiply-add would round differently from one instruction set to the next.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE -Wthread-safety)
  elseif(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 sees overlap in operator+ of a literal and a string (GCC bug 105651).
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(TUTTI_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(TUTTI_SANITIZE)
    # Without vptr: that check opens a pipe, and accuses every object once a test has taken all descriptors.
    target_compile_options(${target} PRIVATE -fsanitize=${TUTTI_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${TUTTI_SANITIZE})
  endif()
endfunction()

# One layer of the library: tutti_<name>, from src/<name>.
#
#   tutti_library(store SOURCES tcp_store.cc ... DEPS tutti_base absl::strings)
function(tutti_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(tutti_${name} STATIC ${ARG_SOURCES})
  target_include_directories(tutti_${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
                                                  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>")
  target_link_libraries(tutti_${name} PUBLIC ${ARG_DEPS})
  tutti_configure_target(tutti_${name})
endfunction()

# A program.
function(tutti_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  tutti_configure_target(${name})
endfunction()

# A GoogleTest program; each of its tests is a CTest test.
#
#   tutti_test(store_test SOURCES store_test.cc DEPS tutti_store LABELS unit TIMEOUT 60)
function(tutti_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  tutti_executable(${name} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

# A Google Benchmark program.
function(tutti_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  tutti_executable(${name} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS} benchmark::benchmark_main)
endfunction()
