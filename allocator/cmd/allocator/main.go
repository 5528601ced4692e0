// Command allocator hands out virtual IPs and ports.
package main

import (
	"os"

	"portolan.dev/allocator"
	"portolan.dev/services/daemon"
)

func main() { os.Exit(daemon.Main("allocator", allocator.New)) }
