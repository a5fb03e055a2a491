# Compiles every header of the ABI and the SDK alone, in C++20, and in C11
# except the headers of the SDK that are marked as C++ and include its library.
#   cmake -DCC= -DCXX= -DFOLDERS=a|b -DSDK= -DSCRATCH= -P headers.cmake
string(REPLACE "|" ";" folders "${FOLDERS}")
file(MAKE_DIRECTORY ${SCRATCH})
set(flags -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -pedantic -Werror)
set(count 0)
foreach(folder IN LISTS folders)
  file(GLOB headers RELATIVE ${folder} ${folder}/distwrap/abi/*.h)
  file(GLOB sdk RELATIVE ${SDK} ${SDK}/sdk/*.h)
  if(NOT headers OR NOT sdk)
    message(FATAL_ERROR "no headers in ${folder} or ${SDK}")
  endif()
  # Headers of the SDK that use what came with 1.2.
  if(NOT EXISTS ${folder}/distwrap/abi/moe.h)
    list(REMOVE_ITEM sdk sdk/moe_rows.h sdk/moe_sums.h sdk/blocks.h sdk/start.h
         sdk/trace.h)
  endif()
  foreach(header IN LISTS headers sdk)
    # One use makes the file non-empty, as -pedantic requires.
    string(CONCAT text "#include \"${header}\"\n#include \"${header}\"\n"
             "extern int dw_test_only;\n")
    set(languages c cc)
    if(header MATCHES "^sdk/(atomics|blocks|buffers|descriptor_set|guard|half|host_filter|kept_failure|limits|loaded_file|message_mismatch|moe_rows|moe_sums|process_barrier|shapes|spelling|thread|yielding)\\.h$")
      set(languages cc)
    endif()
    foreach(language IN LISTS languages)
      file(WRITE ${SCRATCH}/one.${language} "${text}")
      if(language STREQUAL "c")
        set(command ${CC} -std=c11)
      else()
        set(command ${CXX} -std=c++20)
      endif()
      execute_process(
        COMMAND ${command} ${flags} -I${folder} -I${SDK}
                ${SCRATCH}/one.${language}
        RESULT_VARIABLE result ERROR_VARIABLE errors)
      if(NOT result EQUAL 0)
        message(FATAL_ERROR "${folder}: ${header}: ${command}:\n${errors}")
      endif()
      math(EXPR count "${count} + 1")
    endforeach()
  endforeach()
endforeach()
message(STATUS "${count} compilations")
