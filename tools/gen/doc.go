// Command gen generates the Go code of the contract. It compiles every .proto file below -root and
// passes the result to protoc-gen-go, protoc-gen-go-grpc and protoc-gen-go-vtproto. Their output is
// written below -out, in a folder for each Go package.
//
// With -kinds, gen first writes the .proto files of the services of kinds (package kindapi) below -root.
//
// Only the files that -coded and -fast name go through protoc-gen-go-vtproto. Its methods are several
// times as fast as reflection, but they are longer than all other generated code together. They pay
// for messages that are encoded, copied or compared for every change or every object. A request that
// travels once does not need them.
//
// The generated files in the tree are exactly the output for the sources in the tree. With -check
// nothing is written. Instead gen lists the files that differ, are missing, or have no source any more,
// and the exit code is 1.
//
// buf does the same and more, but takes minutes to build, and a fresh clone should not need it
// before its tests. gen uses the same compiler as buf, so both parse files alike. Package protolint
// beside it checks buf's rules.
package main
