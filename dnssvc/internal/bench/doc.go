// Package bench measures the name server: the daemon itself, in a process of its own and following a real change stream, beside NSD and Knot
// with the same zone. It consists of two tests, which do nothing unless they are told to measure:
//
//	go test ./dnssvc/internal/bench -run TestMeasure -v -args -measure [-quick]
//
// What counts is the CPU time of the server's process for a number of questions: it hardly depends on what else the machine does, while
// questions per second do.
package bench
