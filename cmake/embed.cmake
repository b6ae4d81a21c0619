# cmake -DOUT=FILE -DFILES=FILE;FILE… -P embed.cmake: the files as they are, as the entries {name, text} of a C++ array
# (base/files.h). The name is the file's, without folder and extension.
set(entries "")
foreach(file ${FILES})
  file(READ "${file}" text)
  cmake_path(GET file STEM name)
  string(APPEND entries "{\"${name}\", R\"embedded(${text})embedded\"},\n")
endforeach()
file(WRITE "${OUT}" "${entries}")
