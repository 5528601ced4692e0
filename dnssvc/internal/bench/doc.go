// Package bench measures the name server: the daemon itself, in its own process and with a real
// change stream, beside NSD and Knot with the same zone. It consists of two tests, which are
// skipped without -measure:
//
//	go test ./dnssvc/internal/bench -run TestMeasure -v -args -measure [-quick]
//
// The result is the CPU time of the server's process for a number of questions. It hardly depends
// on other load of the machine, while questions per second do.
package bench
