# Flags that every target of the project shares, and the two ways in which we make targets.

add_library(hutch_flags INTERFACE)
target_include_directories(hutch_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
target_compile_options(hutch_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wimplicit-fallthrough -Werror
  -Wno-c23-extensions -Wno-missing-designated-field-initializers
  -ffunction-sections -fdata-sections -fno-omit-frame-pointer -fstack-protector-strong -fstack-clash-protection)
target_compile_definitions(hutch_flags INTERFACE _GLIBCXX_ASSERTIONS $<$<CONFIG:Release>:_FORTIFY_SOURCE=3>
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION)  # see *_library.cc
target_link_options(hutch_flags INTERFACE -fuse-ld=lld -Wl,-z,relro,-z,now -Wl,--gc-sections
  -Wl,-z,pack-relative-relocs)  # a tenth of the size, all of which is read at every start

if(HUTCH_SANITIZE STREQUAL "address")
  target_compile_options(hutch_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined)
  target_link_options(hutch_flags INTERFACE -fsanitize=address,undefined)
elseif(HUTCH_SANITIZE STREQUAL "thread")
  target_compile_options(hutch_flags INTERFACE -fsanitize=thread)
  target_link_options(hutch_flags INTERFACE -fsanitize=thread)
endif()

if(NOT HUTCH_SANITIZE)
  target_link_options(hutch_flags INTERFACE -static-libstdc++ -static-libgcc)
endif()
if(HUTCH_FUZZ)
  target_compile_options(hutch_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Most of the time of a build went into reading the same headers: `headers` is src/base/precompiled.h, or that with
# GoogleTest. The sanitizers' builds have flags of their own, hence headers of their own.
function(hutch_precompile target headers)
  if(NOT TARGET hutch_${headers})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/precompiled.cc CONTENT "\n")
    add_library(hutch_${headers} OBJECT ${CMAKE_BINARY_DIR}/generated/precompiled.cc)
    target_link_libraries(hutch_${headers} PRIVATE hutch_flags $<$<STREQUAL:${headers},precompiled_tests>:GTest::gmock>)
    target_precompile_headers(hutch_${headers} PRIVATE ${CMAKE_SOURCE_DIR}/src/base/${headers}.h)
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)  # -fPIE: not the headers' flags
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM hutch_${headers})
endfunction()

# hutch_module(name SOURCES a.cc ... TESTS a_test.cc ... USES other modules and libraries)
# The tests of a module are one program, run by ctest as one test per case. PRECOMPILED: for modules with Asio in them.
function(hutch_module name)
  cmake_parse_arguments(ARG "PRECOMPILED" "" "SOURCES;TESTS;USES;FUZZERS" ${ARGN})
  if(ARG_SOURCES)
    add_library(hutch_${name} STATIC ${ARG_SOURCES})
    target_link_libraries(hutch_${name} PUBLIC hutch_flags ${ARG_USES})
    if(ARG_PRECOMPILED)
      hutch_precompile(hutch_${name} precompiled)
    endif()
  else()
    add_library(hutch_${name} INTERFACE)
    target_link_libraries(hutch_${name} INTERFACE hutch_flags ${ARG_USES})
  endif()
  if(ARG_TESTS AND BUILD_TESTING AND NOT HUTCH_FUZZ)
    add_executable(${name}_test ${ARG_TESTS})
    target_link_libraries(${name}_test PRIVATE hutch_${name} GTest::gtest GTest::gmock GTest::gtest_main)
    if(ARG_PRECOMPILED)
      hutch_precompile(${name}_test precompiled_tests)
    endif()
    include(GoogleTest)
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
                         PROPERTIES LABELS unit TIMEOUT 300)
  endif()
  if(HUTCH_FUZZ)
    foreach(source ${ARG_FUZZERS})
      get_filename_component(target ${source} NAME_WE)
      add_executable(${target} ${source})
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
      target_link_libraries(${target} PRIVATE hutch_${name})
    endforeach()
  endif()
endfunction()
