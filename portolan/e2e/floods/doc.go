// Package floods has the attacks of package attacks that fill the registry: large and many writes, calls without permission,
// and streams that nothing reads. Its tests measure the registry's memory, so they run without the race detector, which takes
// several bytes for each byte of a program.
package floods
