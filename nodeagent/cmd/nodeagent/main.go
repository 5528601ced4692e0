// Command nodeagent runs the daemon of a node. `nodeagent cleanup` removes the state that it has
// left in the kernel, after it was stopped for good.
package main

import (
	"os"

	"portolan.dev/nodeagent/program"
)

func main() { os.Exit(program.Main()) }
