# cpack reads this file first. Without dpkg-shlibdeps, cpack would silently build a package without library dependencies.

foreach(pair dpkg-shlibdeps=dpkg-dev file=file)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 tool)
  list(GET pair 1 package)
  find_program(path_of_${tool} ${tool} NO_CACHE NO_CMAKE_SYSTEM_PATH)
  if(CPACK_GENERATOR STREQUAL "DEB" AND NOT path_of_${tool})
    message(FATAL_ERROR "the package cannot be built: ${tool} is not installed; run: apt-get install ${package}")
  endif()
endforeach()
