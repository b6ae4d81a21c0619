# cmake -DOUT=FILE -DNOTICES=FILE;FILE… -P licenses.cmake: the files one after the other, as one C++ string literal.
set(text "")
foreach(notice ${NOTICES})
  file(READ "${notice}" part)
  string(APPEND text "${part}\n")
endforeach()
string(STRIP "${text}" text)
file(WRITE "${OUT}" "R\"licenses(${text}\n)licenses\"\n")
