// Package jsonline appends JSON strings with texts of clients to lines of logs. The strings are printable
// ASCII, so that a client can neither send control characters to the terminal that shows the line, nor
// end the line early. encoding/json does not escape all other characters, and allocates memory for each
// line.
package jsonline
