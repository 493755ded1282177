# find_package(tutti) and pkg-config for the installed library.

include(CMakePackageConfigHelpers)

install(TARGETS tutti EXPORT tuttiTargets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
if(TUTTI_BUILD_TOOLS)
  install(TARGETS tutti-run)
endif()
if(TUTTI_BUILD_BENCH)
  install(TARGETS allreduce_bench)
endif()

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tutti")
install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION "${package_dir}")
configure_package_config_file(cmake/tuttiConfig.cmake.in "${PROJECT_BINARY_DIR}/tuttiConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tuttiConfig.cmake" "${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake"
        DESTINATION "${package_dir}")

configure_file(cmake/tutti.pc.in "${PROJECT_BINARY_DIR}/tutti.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/tutti.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
