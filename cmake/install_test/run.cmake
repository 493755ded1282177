# cmake -DBUILD_DIR=... -DWORK_DIR=... -DCXX=... -DLIBDIR=... -P run.cmake: installs into an empty prefix and builds the
# outside project, once by find_package and once by pkg-config.

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE "${WORK_DIR}")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${WORK_DIR}/prefix")

run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${WORK_DIR}/build" -G Ninja "-DCMAKE_CXX_COMPILER=${CXX}"
    -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix" "-DCMAKE_CXX_FLAGS=${FLAGS}")
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build")
run("${WORK_DIR}/build/one_rank")

set(ENV{PKG_CONFIG_PATH} "${WORK_DIR}/prefix/${LIBDIR}/pkgconfig")
execute_process(COMMAND pkg-config "--define-variable=prefix=${WORK_DIR}/prefix" --cflags --libs tutti
                OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
separate_arguments(extra UNIX_COMMAND "${FLAGS}")
run("${CXX}" -std=c++20 ${extra} "${CMAKE_CURRENT_LIST_DIR}/one_rank.cc" -o "${WORK_DIR}/one_rank" ${flags})
run("${WORK_DIR}/one_rank")
