# cmake --install: headers, library, `tune`, and the package that find_package(rowsmith) reads.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rowsmith)
install(TARGETS rowsmith EXPORT rowsmith-targets)
# Where the library is shared, tune finds it beside itself wherever the prefix is moved.
file(RELATIVE_PATH lib_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(tune PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")
install(TARGETS tune)
install(DIRECTORY include/rowsmith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT rowsmith-targets NAMESPACE rowsmith:: DESTINATION ${package_dir})
configure_package_config_file(cmake/rowsmith-config.cmake.in
                              ${PROJECT_BINARY_DIR}/rowsmith-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rowsmith-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rowsmith-config.cmake
              ${PROJECT_BINARY_DIR}/rowsmith-config-version.cmake
        DESTINATION ${package_dir})
