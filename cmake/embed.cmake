# rowsmith_embed_family(part family): makes <family>_text.h, which holds the flattened device text
# of <family>.cuh as k<Family>Text and a digest over it and the space in <family>.cpp.
function(rowsmith_embed_family part family)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${family}_text.h)
  file(GLOB texts CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cuh
       ${CMAKE_CURRENT_SOURCE_DIR}/${family}.cpp ${CMAKE_CURRENT_SOURCE_DIR}/space.cpp
       ${CMAKE_CURRENT_SOURCE_DIR}/axis_family.cpp ${CMAKE_CURRENT_SOURCE_DIR}/row_family.cpp)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DFAMILY=${family} -DDIR=${CMAKE_CURRENT_SOURCE_DIR} -DOUT=${out}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_family.cmake
    DEPENDS ${texts} ${PROJECT_SOURCE_DIR}/cmake/embed_family.cmake
    COMMENT "Embedding ${family}.cuh"
    VERBATIM)
  target_sources(rowsmith_${part} PRIVATE ${out})
  target_include_directories(rowsmith_${part} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
