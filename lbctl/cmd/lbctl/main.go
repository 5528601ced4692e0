// Command lbctl gives services of type LoadBalancer their addresses.
package main

import (
	"os"

	"portolan.dev/lbctl"
)

func main() { os.Exit(lbctl.Main()) }
