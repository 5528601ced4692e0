// Command protolint checks the contract by the rules of buf's categories STANDARD and COMMENTS, which the
// file proto/buf.yaml names. It prints one line per violation, and exits with code 1 if there are any.
//
// The rules have buf's names, and a test breaks each of them once. They are written here, because buf takes
// nine minutes of CPU to build on an empty build cache, its plugin protoc-gen-buf-lint takes two, and its
// packages refuse to run in programs of others. protolint needs nothing that the generator does not need.
// If a rule of buf has options, protolint has their defaults. Comments that switch rules off
// (buf:lint:ignore) have no effect, as disallow_comment_ignores in buf.yaml demands.
//
// The rule PROTOVALIDATE is about options of the package buf.validate. The contract cannot use them, because
// the compiler does not find their file.
package main
