// Command registry keeps the objects of Portolan.
package main

import (
	"os"

	"portolan.dev/registry"
	"portolan.dev/services/daemon"
)

func main() { os.Exit(daemon.Main("registry", registry.New)) }
