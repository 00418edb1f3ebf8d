# Compiler settings, private to our own targets: nothing leaks to those who link the library.
add_library(rowsmith_flags INTERFACE)
target_compile_features(rowsmith_flags INTERFACE cxx_std_20)
target_compile_options(rowsmith_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                       -Woverloaded-virtual -Wno-missing-field-initializers)
# GCC 12 warns of `"text" + std::to_string(n)` at -O2 and up, wrongly (GCC bug 105651).
target_compile_options(rowsmith_flags INTERFACE
                       $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
if(ROWSMITH_WERROR)
  target_compile_options(rowsmith_flags INTERFACE -Werror)
endif()
target_include_directories(rowsmith_flags INTERFACE ${PROJECT_SOURCE_DIR}
                           ${PROJECT_SOURCE_DIR}/include)

# One object library a folder: rowsmith_add_part(cache SOURCES .. LINK ..).
function(rowsmith_add_part name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(rowsmith_${name} OBJECT ${arg_SOURCES})
  set_target_properties(rowsmith_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(rowsmith_${name} PRIVATE rowsmith_flags ${arg_LINK})
endfunction()
