# Proves that each module exports dw_plugin_query_v1 and nothing else, and that
# the check detects WRONG, a module that breaks the rule.
#   cmake -DNM= -DMODULES=a|b -DWRONG= -P exports.cmake
function(exports module variable)
  execute_process(COMMAND ${NM} -D --defined-only --format=posix ${module}
    OUTPUT_VARIABLE text ERROR_VARIABLE errors RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "nm ${module}: ${errors}")
  endif()
  string(REGEX MATCHALL "[^\n]+" lines "${text}")
  set(names "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^([^ ]+) (.).*" "\\1:\\2" name "${line}")
    list(APPEND names ${name})
  endforeach()
  set(${variable} "${names}" PARENT_SCOPE)
endfunction()

string(REPLACE "|" ";" modules "${MODULES}")
foreach(module IN LISTS modules)
  exports(${module} names)
  if(NOT names STREQUAL "dw_plugin_query_v1:T")
    message(FATAL_ERROR "${module} exports: ${names}")
  endif()
endforeach()
exports(${WRONG} names)
if(names STREQUAL "dw_plugin_query_v1:T")
  message(FATAL_ERROR "the check does not see what ${WRONG} exports")
endif()
