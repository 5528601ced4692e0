// Command edge serves the addresses of load balancers by a proxy of layers 4 and 7.
package main

import (
	"os"

	"portolan.dev/edge"
)

func main() { os.Exit(edge.Main()) }
