// Package yardstick prints what benchmarks find, beside what they are to reach.
//
// A line is `ratio NAME VALUE (TARGET)`, and ends with MISSED if the value misses its target. The targets stand beside the
// measurements and not only in docs/benchmarks.md, because a run that misses one must say so itself.
package yardstick
