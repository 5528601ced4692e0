// Command allocator allocates virtual IPs, ports and addresses.
//
//	allocator [flags]          runs the allocator
//	allocator export [flags]   writes the content of a store into a file
//	allocator import [flags]   fills an empty store from such a file
package main

import (
	"os"

	"portolan.dev/allocator/program"
)

func main() { os.Exit(program.Main()) }
