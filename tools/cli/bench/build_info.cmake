# Rewrites build_info.cc when the commit has changed; every build runs it. It
# takes no lock, because another process may be committing. It names the .git
# folder, because a source folder without one may lie inside another repository.
execute_process(
  COMMAND git --no-optional-locks --git-dir=${SOURCE}/.git
          --work-tree=${SOURCE} describe --always --dirty --tags
  OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
  RESULT_VARIABLE failed)
if(failed)
  set(COMMIT "")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_info.cc.in ${TO} @ONLY)
