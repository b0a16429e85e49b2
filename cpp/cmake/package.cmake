# What `cmake --install` puts in place: the archives, the public headers, and the package
# that find_package(vecall) finds.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set_target_properties(vecall_core PROPERTIES EXPORT_NAME core)
set_target_properties(vecall_kernels PROPERTIES EXPORT_NAME kernels)
set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/vecall)
install(TARGETS vecall_core vecall_kernels EXPORT vecall_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/vecall DESTINATION include)
install(EXPORT vecall_targets NAMESPACE vecall:: FILE vecall-targets.cmake
        DESTINATION ${folder})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/vecall-config-version.cmake
                                 VERSION ${VECALL_VERSION}
                                 COMPATIBILITY SameMinorVersion)
install(FILES cmake/vecall-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/vecall-config-version.cmake
        DESTINATION ${folder})
