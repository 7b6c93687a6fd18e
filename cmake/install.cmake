# The installed package: find_package(assay), proven by ci/consumer.
include(CMakePackageConfigHelpers)

# What another project links: the judge, the same for its GoogleTest program, and the header of plug-ins.
add_library(assay_gtest INTERFACE)
target_link_libraries(assay_gtest INTERFACE assay_judge)
target_compile_features(assay_gtest INTERFACE cxx_std_14)
set_target_properties(assay_gtest PROPERTIES EXPORT_NAME gtest)
add_library(assay_backend_header INTERFACE)
target_include_directories(assay_backend_header INTERFACE $<INSTALL_INTERFACE:include>)
set_target_properties(assay_backend_header PROPERTIES EXPORT_NAME backend)
install(TARGETS assay assay-worker assay_backend_header assay_gtest assay_judge
  EXPORT assayTargets RUNTIME DESTINATION bin LIBRARY DESTINATION lib)
install(EXPORT assayTargets NAMESPACE assay:: DESTINATION lib/cmake/assay)
configure_package_config_file(cmake/assayConfig.cmake.in assayConfig.cmake INSTALL_DESTINATION lib/cmake/assay)
write_basic_package_version_file(assayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/assayConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/assayConfigVersion.cmake
  cmake/assay_discover_cases.cmake cmake/assay_add_properties.cmake DESTINATION lib/cmake/assay)
install(DIRECTORY cases/suites DESTINATION share/assay)
set(ASSAY_NOTICES "" CACHE FILEPATH "The licences of the libraries that are linked in, to be installed where these are part of what is handed on")
if(ASSAY_NOTICES)
  install(FILES ${ASSAY_NOTICES} DESTINATION share/assay)
endif()

if(BUILD_TESTING)
  # Installs into the build tree, then configures, builds and tests the consumer against that.
  set(consumer_flags "${CMAKE_CXX_FLAGS}")
  if(ASSAY_SANITIZER)  # the installed library wants the runtime of the sanitizer
    string(APPEND consumer_flags " -fsanitize=${ASSAY_SANITIZER}")
  endif()
  add_test(NAME package.install COMMAND ${CMAKE_COMMAND} --install ${CMAKE_BINARY_DIR} --prefix ${CMAKE_BINARY_DIR}/prefix)
  add_test(NAME package.consumer COMMAND ${CMAKE_CTEST_COMMAND}
    --build-and-test ${PROJECT_SOURCE_DIR}/ci/consumer ${CMAKE_BINARY_DIR}/consumer
    --build-generator ${CMAKE_GENERATOR}
    --build-options -DCMAKE_PREFIX_PATH=${CMAKE_BINARY_DIR}/prefix -DCMAKE_BUILD_TYPE=Release
                    -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
                    -DCMAKE_CXX_FLAGS=${consumer_flags}
    --test-command ${CMAKE_CTEST_COMMAND} --output-on-failure)
  set_tests_properties(package.install PROPERTIES FIXTURES_SETUP package LABELS spine)
  set_tests_properties(package.consumer PROPERTIES FIXTURES_REQUIRED package LABELS spine TIMEOUT 600)
endif()
