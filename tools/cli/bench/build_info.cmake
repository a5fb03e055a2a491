# Writes build_info.cc anew when the commit has changed; run by every build.
# Takes no lock: somebody may be committing. A folder without .git may lie in a
# repository that is not ours.
execute_process(
  COMMAND git --no-optional-locks --git-dir=${SOURCE}/.git
          --work-tree=${SOURCE} describe --always --dirty --tags
  OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
  RESULT_VARIABLE failed)
if(failed)
  set(COMMIT "")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_info.cc.in ${TO} @ONLY)
