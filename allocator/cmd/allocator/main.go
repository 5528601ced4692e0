// Command allocator allocates virtual IPs, ports and addresses.
package main

import (
	"os"

	"portolan.dev/allocator"
)

func main() { os.Exit(allocator.Main()) }
