// Package yardstick measures the CPU time and the memory of processes, and prints the results of
// benchmarks with their targets.
//
// A line of results is `ratio NAME VALUE (TARGET)`, and ends with MISSED if the value misses its target. The
// targets are in the code of the benchmarks and not only in docs/benchmarks.md, so that a run that
// misses one reports it.
package yardstick
