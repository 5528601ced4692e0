// Command nodeagent runs the daemon of a node.
package main

import (
	"os"

	"portolan.dev/nodeagent"
	"portolan.dev/services/daemon"
)

func main() { os.Exit(daemon.Main("nodeagent", nodeagent.New)) }
