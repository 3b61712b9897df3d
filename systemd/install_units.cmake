# Runs at install time (see CMakeLists.txt): fills in the unit files and installs them where systemd finds them.

set(BINDIR ${CMAKE_INSTALL_PREFIX}/${bin_dir})
file(READ ${source_dir}/hardening.conf.in HARDENING)
string(STRIP "${HARDENING}" HARDENING)

file(REMOVE_RECURSE ${stage_dir})
file(GLOB units ${source_dir}/exposure-agent*.service.in ${source_dir}/exposure-agent*.path
     ${source_dir}/exposure-agent*.timer)
foreach(unit IN LISTS units)
  get_filename_component(name ${unit} NAME)
  string(REGEX REPLACE "\\.in$" "" name ${name})
  configure_file(${unit} ${stage_dir}/${name} @ONLY)
  list(APPEND staged ${stage_dir}/${name})
endforeach()
file(INSTALL ${staged} DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system)

# As in GNUInstallDirs: the prefix /usr uses /etc, every other prefix has its own etc directory.
set(etc_dir ${CMAKE_INSTALL_PREFIX}/etc)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(etc_dir /etc)
endif()
file(INSTALL ${source_dir}/environment DESTINATION ${etc_dir}/exposure-agent)
