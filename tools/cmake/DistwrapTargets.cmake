# Kinds of targets of this project. Every source list is explicit.

# Flags of all our own code: an interface target that each target links.
add_library(distwrap_flags INTERFACE)
target_compile_features(distwrap_flags INTERFACE cxx_std_20 c_std_11)
target_compile_options(distwrap_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<BOOL:${DISTWRAP_WERROR}>:-Werror>
  # Files that are shipped name no folder of the machine that built them.
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
  -fvisibility=hidden
  $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>
  # Plugins must not carry unique symbols: they would tie two plugins together.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fno-gnu-unique>
  $<$<CONFIG:Release>:-fstack-protector-strong>)
target_compile_definitions(distwrap_flags INTERFACE
  _GNU_SOURCE
  $<$<CONFIG:Release>:_FORTIFY_SOURCE=2>
  $<$<CONFIG:Release>:_GLIBCXX_ASSERTIONS>)
if(DISTWRAP_SANITIZE STREQUAL "address")
  target_compile_options(distwrap_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(distwrap_flags INTERFACE -fsanitize=address,undefined)
elseif(DISTWRAP_SANITIZE STREQUAL "thread")
  target_compile_options(distwrap_flags INTERFACE -fsanitize=thread)
  target_link_options(distwrap_flags INTERFACE -fsanitize=thread)
  target_sources(distwrap_flags INTERFACE
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:$<TARGET_OBJECTS:distwrap_thread_sanitizer>>)
elseif(NOT DISTWRAP_SANITIZE STREQUAL "")
  message(FATAL_ERROR "DISTWRAP_SANITIZE is '${DISTWRAP_SANITIZE}'; "
                      "known are 'address' and 'thread'")
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# A plugin loaded into the host must not depend on what else is installed.
set(CMAKE_CXX_EXTENSIONS OFF)

# distwrap_precompile(TARGET)
#
# Static libraries of ours that use Abseil read these headers from one
# precompiled file. Only in a build that others check without it: a forgotten
# include goes unnoticed here.
if(DISTWRAP_PRECOMPILE)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cc
       CONTENT "// The headers are all there is.\n")
  add_library(distwrap_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
  target_link_libraries(distwrap_precompiled PRIVATE distwrap_flags)
  # These flags let ccache look into precompiled headers, and clang use one that
  # ccache has kept from an earlier build; ccache also needs CCACHE_SLOPPINESS.
  target_compile_options(distwrap_precompiled PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
    "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
  target_precompile_headers(distwrap_precompiled PRIVATE
    <absl/status/statusor.h> <absl/strings/str_cat.h>
    <absl/strings/string_view.h> <absl/time/time.h> <absl/types/span.h>
    <algorithm> <functional> <map> <memory> <optional> <string> <vector>)
endif()
function(distwrap_precompile target)
  if(DISTWRAP_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM distwrap_precompiled)
    target_compile_options(${target} PRIVATE
      $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  endif()
endfunction()

# distwrap_layer(NAME [OF library] MAY_USE layer... SOURCES file...
#                [LIBRARIES lib...])
#
# One folder of src/, which goes into libdistwrap.so, or into the library that
# OF names: a layer of that one sees the public headers of libdistwrap.so, and
# links it. MAY_USE names the layers that it may include, and nothing else may
# be: tools/checks/layers.py reads this very list.
function(distwrap_layer name)
  cmake_parse_arguments(arg "" "OF" "MAY_USE;SOURCES;LIBRARIES" ${ARGN})
  add_library(distwrap_${name} STATIC ${arg_SOURCES})
  add_library(distwrap::${name} ALIAS distwrap_${name})
  target_include_directories(distwrap_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(distwrap_${name} PUBLIC distwrap_headers ${arg_LIBRARIES}
                                         PRIVATE distwrap_flags)
  foreach(layer IN LISTS arg_MAY_USE)
    target_link_libraries(distwrap_${name} PUBLIC distwrap_${layer})
  endforeach()
  if(arg_OF)
    target_link_libraries(distwrap_${name} PUBLIC distwrap)
    string(TOUPPER ${arg_OF} arg_OF)
    set_property(GLOBAL APPEND PROPERTY DISTWRAP_${arg_OF}_LAYERS
                                        distwrap_${name})
  else()
    set_property(GLOBAL APPEND PROPERTY DISTWRAP_LAYERS distwrap_${name})
  endif()
  distwrap_precompile(distwrap_${name})
endfunction()

# distwrap_backend(NAME PLUGIN file SOURCES file... [LIBRARIES lib...])
#
# One folder of backends/: the object library distwrap_backend_NAME for linking
# in, whose query function is dw_plugin_query_v1_NAME, and the module
# libdistwrap_NAME.so. PLUGIN is the file with the entry; it is compiled for
# each. Neither sees src/.
function(distwrap_backend name)
  cmake_parse_arguments(arg "" "PLUGIN" "SOURCES;LIBRARIES" ${ARGN})
  add_library(distwrap_backend_${name}_objects OBJECT ${arg_SOURCES})
  target_link_libraries(distwrap_backend_${name}_objects
    PUBLIC distwrap_sdk ${arg_LIBRARIES} PRIVATE distwrap_flags)

  add_library(distwrap_backend_${name} STATIC ${arg_PLUGIN})
  target_compile_definitions(distwrap_backend_${name}
    PRIVATE DW_LINKED_IN=${name})
  target_sources(distwrap_backend_${name}
    PRIVATE $<TARGET_OBJECTS:distwrap_backend_${name}_objects>)
  target_link_libraries(distwrap_backend_${name}
    PUBLIC distwrap_sdk ${arg_LIBRARIES} PRIVATE distwrap_flags)

  add_library(distwrap_plugin_${name} MODULE ${arg_PLUGIN})
  target_sources(distwrap_plugin_${name}
    PRIVATE $<TARGET_OBJECTS:distwrap_backend_${name}_objects>)
  target_link_libraries(distwrap_plugin_${name}
    PRIVATE distwrap_sdk ${arg_LIBRARIES} distwrap_flags)
  set_target_properties(distwrap_plugin_${name} PROPERTIES
    OUTPUT_NAME distwrap_${name}
    LIBRARY_OUTPUT_DIRECTORY ${DISTWRAP_PLUGIN_OUTPUT_DIRECTORY})
  install(TARGETS distwrap_plugin_${name}
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/distwrap/plugins)
endfunction()

# distwrap_operators(NAME SOURCES file... [LIBRARIES lib...])
#
# One folder of ops/: the library libdistwrap_ops_NAME.so, whose kernels are
# registered when it is loaded. A program that links distwrap::ops_NAME keeps it
# although it calls none of its functions.
function(distwrap_operators name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(distwrap_ops_${name} SHARED ${arg_SOURCES})
  target_include_directories(distwrap_ops_${name}
    PRIVATE ${PROJECT_SOURCE_DIR}/ops)
  target_link_libraries(distwrap_ops_${name}
    PUBLIC distwrap_tensor PRIVATE distwrap_sdk distwrap_flags ${arg_LIBRARIES})
  target_link_options(distwrap_ops_${name}
    INTERFACE LINKER:--no-as-needed
    PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/tools/cmake/ops.map)
  set_target_properties(distwrap_ops_${name} PROPERTIES
    EXPORT_NAME ops_${name}
    INSTALL_RPATH "\$ORIGIN/../.."
    LIBRARY_OUTPUT_DIRECTORY ${DISTWRAP_OPERATORS_OUTPUT_DIRECTORY})
  add_library(distwrap::ops_${name} ALIAS distwrap_ops_${name})
  install(TARGETS distwrap_ops_${name} EXPORT distwrap-tensor-targets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/distwrap/ops)
endfunction()

# distwrap_test(NAME SOURCES file... LIBRARIES lib... [ARGS arg...]
#               [TIMEOUT seconds] [LABELS label...] [SERIAL])
#
# A GoogleTest program and the test of the same name. Programs with some labels
# also run in a release build, which has a target for them.
function(distwrap_test name)
  cmake_parse_arguments(arg "SERIAL" "TIMEOUT" "SOURCES;LIBRARIES;ARGS;LABELS"
                        ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} distwrap_flags
                                        distwrap_sanitizer_options GTest::gmock
                                        GTest::gtest_main)
  # A test is compiled once and runs for a moment. In a release gcc 12 warns of
  # strings that it has inlined wrongly.
  target_compile_options(${name} PRIVATE $<IF:$<CONFIG:Debug>,-O0,-O1>)
  if(DISTWRAP_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM distwrap_precompiled_tests)
    target_compile_options(${name} PRIVATE
      $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  endif()
  foreach(label conformance crossing ranks)
    if(label IN_LIST arg_LABELS)
      add_dependencies(distwrap_release_tests ${name})
    endif()
  endforeach()
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)  # on a machine that does much else
  endif()
  if(DISTWRAP_SANITIZE)
    math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT}
                                          LABELS "${arg_LABELS}")
  if(arg_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()
