# The installed package: libdistwrap.so, and how other projects find it.
include(CMakePackageConfigHelpers)

# The build tree and what is installed may both be moved.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

# Where an installed program finds the library: relative to itself.
file(RELATIVE_PATH _distwrap_lib_from_bin
     ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(DISTWRAP_PROGRAM_RPATH "$ORIGIN/${_distwrap_lib_from_bin}")

# A shared library from the objects of layers; MAP names what it exports.
function(_distwrap_library_of_layers name map layers)
  set(map ${PROJECT_SOURCE_DIR}/tools/cmake/${map})
  add_library(${name} SHARED)
  foreach(layer IN LISTS layers)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${layer}>)
  endforeach()
  # The layers bring the third parties; their own objects are in already.
  target_link_libraries(${name} PRIVATE ${layers} distwrap_flags)
  target_compile_features(${name} INTERFACE cxx_std_20)
  target_include_directories(${name} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  # Calls inside the library stay inside, and cost no look-up.
  target_link_options(${name} PRIVATE LINKER:--version-script=${map}
                                      LINKER:-Bsymbolic-functions)
  if(NOT DISTWRAP_SANITIZE)
    target_link_options(${name} PRIVATE LINKER:-z,defs)
  endif()
  set_target_properties(${name} PROPERTIES
    LINKER_LANGUAGE CXX
    LINK_DEPENDS ${map}
    SOVERSION ${PROJECT_VERSION_MAJOR})
endfunction()

# distwrap_shared_library()
#
# libdistwrap.so from the objects of all layers so far, with the linked-in
# backends that they name. The list of exported names is libdistwrap.map.
function(distwrap_shared_library)
  get_property(layers GLOBAL PROPERTY DISTWRAP_LAYERS)
  _distwrap_library_of_layers(distwrap libdistwrap.map "${layers}")
  add_library(distwrap::distwrap ALIAS distwrap)
  target_link_libraries(distwrap
    PUBLIC absl::status absl::statusor absl::strings absl::time)
  if(SKBUILD)
    # A wheel holds no symbolic links, and would hold the library three times.
    # In place of the link for the linker it has a file that names the library.
    install(TARGETS distwrap EXPORT distwrap-targets
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/install/libdistwrap.so
         CONTENT "INPUT(libdistwrap.so.${PROJECT_VERSION_MAJOR})\n")
    install(FILES ${PROJECT_BINARY_DIR}/install/libdistwrap.so
            DESTINATION ${CMAKE_INSTALL_LIBDIR})
  else()
    set_target_properties(distwrap PROPERTIES VERSION ${PROJECT_VERSION})
    install(TARGETS distwrap EXPORT distwrap-targets
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endfunction()

# distwrap_tensor_library()
#
# libdistwrap_tensor.so, from the layers whose OF is tensor.
function(distwrap_tensor_library)
  get_property(layers GLOBAL PROPERTY DISTWRAP_TENSOR_LAYERS)
  _distwrap_library_of_layers(distwrap_tensor libdistwrap_tensor.map
                              "${layers}")
  add_library(distwrap::tensor ALIAS distwrap_tensor)
  target_link_libraries(distwrap_tensor
    PUBLIC distwrap absl::inlined_vector absl::span)
  set_target_properties(distwrap_tensor PROPERTIES
    EXPORT_NAME tensor
    INSTALL_RPATH "\$ORIGIN"
    VERSION ${PROJECT_VERSION})
  install(TARGETS distwrap_tensor EXPORT distwrap-tensor-targets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# distwrap_package()
#
# find_package(distwrap) and pkg-config, from the prefix and, since it has the
# same shape, from the build tree. All paths are relative to these files.
function(distwrap_package)
  set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/distwrap)
  set(build_dir ${PROJECT_BINARY_DIR}/lib/cmake/distwrap)
  install(EXPORT distwrap-targets NAMESPACE distwrap:: DESTINATION ${cmake_dir})
  export(EXPORT distwrap-targets NAMESPACE distwrap::
         FILE ${build_dir}/distwrap-targets.cmake)
  if(DISTWRAP_TENSOR)
    install(EXPORT distwrap-tensor-targets NAMESPACE distwrap::
            DESTINATION ${cmake_dir})
    export(EXPORT distwrap-tensor-targets NAMESPACE distwrap::
           FILE ${build_dir}/distwrap-tensor-targets.cmake)
  endif()
  configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/tools/cmake/distwrap-config.cmake.in
    ${build_dir}/distwrap-config.cmake
    INSTALL_DESTINATION ${cmake_dir} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${build_dir}/distwrap-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${build_dir}/distwrap-config.cmake
                ${build_dir}/distwrap-config-version.cmake
          DESTINATION ${cmake_dir})

  file(RELATIVE_PATH include ${PROJECT_BINARY_DIR}
       ${PROJECT_SOURCE_DIR}/include)
  distwrap_pkg_config(${PROJECT_BINARY_DIR}/lib/pkgconfig/distwrap.pc
    lib ${include})
  set(installed ${PROJECT_BINARY_DIR}/install/distwrap.pc)
  distwrap_pkg_config(${installed}
    ${CMAKE_INSTALL_LIBDIR} ${CMAKE_INSTALL_INCLUDEDIR})
  install(FILES ${installed} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# The .pc file for a prefix with these folders, relative to it.
function(distwrap_pkg_config file libdir includedir)
  string(REGEX REPLACE "[^/]+" ".." up ${libdir}/pkgconfig)
  configure_file(${PROJECT_SOURCE_DIR}/tools/cmake/distwrap.pc.in ${file} @ONLY)
endfunction()
