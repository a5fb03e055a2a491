# distwrap_find_mpi(WRAPPER QUESTION FOLDERS LIBRARIES)
#
# Asks an MPI's compiler wrapper for its flags, and sets FOLDERS to the folders
# of its headers and LIBRARIES to what links it; both are empty where the
# wrapper or mpi.h is missing.
function(distwrap_find_mpi wrapper question folders_out libraries_out)
  set(${folders_out} "" PARENT_SCOPE)
  set(${libraries_out} "" PARENT_SCOPE)
  find_program(DISTWRAP_${wrapper} ${wrapper})
  if(NOT DISTWRAP_${wrapper})
    return()
  endif()
  execute_process(COMMAND ${DISTWRAP_${wrapper}} ${question}
                  OUTPUT_VARIABLE command OUTPUT_STRIP_TRAILING_WHITESPACE
                  RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    message(STATUS "${wrapper} does not tell its flags")
    return()
  endif()
  separate_arguments(words UNIX_COMMAND "${command}")
  list(FILTER words INCLUDE REGEX "^-[ILl]")
  set(folders ${words})
  list(FILTER folders INCLUDE REGEX "^-I")
  list(TRANSFORM folders REPLACE "^-I" "")
  # Debian's launcher packages contain the wrapper without the header.
  find_file(header mpi.h PATHS ${folders} NO_CACHE NO_DEFAULT_PATH)
  if(NOT header)
    message(STATUS "${wrapper} finds no mpi.h")
    return()
  endif()
  list(FILTER words INCLUDE REGEX "^-[Ll]")
  set(${folders_out} "${folders}" PARENT_SCOPE)
  set(${libraries_out} "${words}" PARENT_SCOPE)
endfunction()
