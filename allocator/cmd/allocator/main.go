// Command allocator hands out virtual IPs and ports.
package main

import (
	"os"

	"portolan.dev/allocator"
)

func main() { os.Exit(allocator.Main()) }
