# Run by ctest with BUILD, CONFIG, SOURCE, WORK, GENERATOR: installs BUILD under WORK, then configures,
# builds and runs the examples in SOURCE against it, as a project that knows nothing else.
file(REMOVE_RECURSE ${WORK})
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${ARGN}")
  endif()
endfunction()
run(${CMAKE_COMMAND} --install ${BUILD} --config ${CONFIG} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR}
    -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_FLAGS=${CXX_FLAGS})
run(${CMAKE_COMMAND} --build ${WORK}/build)
set(ENV{ROWSMITH_DEVICE} host)
set(ENV{ROWSMITH_CACHE_DIR} ${WORK}/cache)
set(ENV{ROWSMITH_ON_MISS} default)
run(${WORK}/build/c_api)
run(${WORK}/build/quickstart 2 33)
run(${WORK}/prefix/bin/tune --version)
