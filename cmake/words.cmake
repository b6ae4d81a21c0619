# cmake -DOUT=FILE -DFILE=FILE -P words.cmake: lists of words in TOML as tables of C++, which they differ from by their
# heads, ends and comments only.
file(READ "${FILE}" text)
string(REGEX REPLACE "#[^\n]*\n" "" text "${text}")
string(REGEX REPLACE "([a-z_]+) = \\[([^]]*)\\]" "constexpr std::string_view \\1[] = {\\2};" text "${text}")
file(WRITE "${OUT}" "${text}")
