# Run by rowsmith_embed_family with FAMILY, DIR, OUT: flattens DIR/FAMILY.cuh, each include once and
# before its user, with #line marks, and writes it as a C++ raw string beside its digest. A text
# without a space (numeric) has no .cpp; its digest covers the text alone.
cmake_policy(VERSION 3.22)
set(done "")
set(text "")
function(flatten name)
  if(name IN_LIST done)
    return()
  endif()
  list(APPEND done ${name})
  set(done "${done}" PARENT_SCOPE)
  file(READ ${DIR}/${name} body)
  string(REGEX MATCHALL "#include \"[a-z0-9_]+\\.cuh\"" includes "${body}")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "#include \"(.*)\"" "\\1" file "${include}")
    flatten(${file})
  endforeach()
  # Blank, not removed: line numbers stay those of the file.
  string(REGEX REPLACE "#include \"[a-z0-9_]+\\.cuh\"" "" body "${body}")
  string(REPLACE "#pragma once" "" body "${body}")
  set(text "${text}#line 1 \"${name}\"\n${body}" PARENT_SCOPE)
  set(done "${done}" PARENT_SCOPE)
endfunction()
flatten(${FAMILY}.cuh)
string(FIND "${text}" ")rowsmith\"" clash)
if(NOT clash EQUAL -1)
  message(FATAL_ERROR "${FAMILY}.cuh holds the raw string's end mark")
endif()
set(space "")
if(EXISTS ${DIR}/${FAMILY}.cpp)
  # What spaces share decides about every config, so it is in every digest.
  foreach(source ${FAMILY} space axis_family row_family)
    file(READ ${DIR}/${source}.cpp part)
    string(APPEND space "${part}")
  endforeach()
endif()
string(SHA256 digest "${text}${space}")
string(SUBSTRING ${digest} 0 32 digest)
string(REPLACE "_" ";" words ${FAMILY})
set(camel "")
foreach(word IN LISTS words)
  string(SUBSTRING ${word} 0 1 head)
  string(SUBSTRING ${word} 1 -1 tail)
  string(TOUPPER ${head} head)
  string(APPEND camel ${head}${tail})
endforeach()
file(WRITE ${OUT} "// Made from ${FAMILY}.cuh and ${FAMILY}.cpp; do not edit.
#pragma once
#include <string_view>
namespace rowsmith::detail {
inline constexpr std::string_view k${camel}Text = R\"rowsmith(${text})rowsmith\";
inline constexpr std::string_view k${camel}Digest = \"${digest}\";
}  // namespace rowsmith::detail
")
