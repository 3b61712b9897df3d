# cpack -G DEB: does what debhelper would do for a package with units and a system user.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME exposure-agent)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "exposure-agent maintainers <exposure-agent@example.com>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "keeps Kafka client certificates of an event exposure service fresh")
set(CPACK_PACKAGE_DESCRIPTION "A small daemon that requests, verifies, publishes, rotates and retires
the TLS client certificates that Kafka clients use to read the logs,
health and lifecycle events of a cloud platform. It is configured by one
YAML file, keeps every certificate fresh unattended, and reports its
status to systemd, the journal and Prometheus.
.
The service does not start before /etc/exposure-agent/agent.yaml exists.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
# The same permissions whatever the umask of the build.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# Boost and yaml-cpp are linked statically (see CMakeLists.txt), so a package built on Debian 12 also fits Debian 13 and
# Ubuntu 24.04. libsystemd0 is loaded with dlopen, so dpkg-shlibdeps does not find it
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd (>= 247), libsystemd0")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${CMAKE_CURRENT_LIST_DIR}/debian/conffiles
    ${CMAKE_CURRENT_LIST_DIR}/debian/postinst
    ${CMAKE_CURRENT_LIST_DIR}/debian/prerm
    ${CMAKE_CURRENT_LIST_DIR}/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/debian/required_tools.cmake)
include(CPack)
