// Package jsonline appends strings of JSON to lines of logs that have texts of others in them: the
// strings are printable ASCII, so that a line does nothing to the terminal on which it is shown, and
// nobody can end it early. encoding/json writes other characters as they are, and needs memory for
// each line.
package jsonline
