# cmake -DOUT=FILE -DTEXTS=FILE;FILE… -P literal.cmake: the files one after the other, as one C++ string literal.
set(text "")
foreach(name ${TEXTS})
  file(READ "${name}" part)
  string(APPEND text "${part}\n")
endforeach()
string(STRIP "${text}" text)
file(WRITE "${OUT}" "R\"literal(${text}\n)literal\"\n")
