// Command gen writes the Go code of the contract: it compiles every .proto file below -root and hands the result to
// protoc-gen-go, protoc-gen-go-grpc and protoc-gen-go-vtproto, whose output stands beside its source.
//
// The one invariant: what is in the tree is exactly what the pinned plugins make of the .proto files that are in the tree.
// With -check nothing is written; files that differ, are missing or have no source any more are named, and the exit code is 1.
//
// Why a program of our own: buf does the same and more, but takes minutes to build, and no such tool may stand between a fresh
// clone and its tests. The compiler here is the one inside buf, so both read a file alike. buf stays the linter (tools/buf).
package main
