// Command nodeagent runs the daemon of a node. `nodeagent cleanup` takes what it
// has left in the kernel out again, once it has been stopped for good.
package main

import (
	"os"

	"portolan.dev/nodeagent"
)

func main() { os.Exit(nodeagent.Main()) }
