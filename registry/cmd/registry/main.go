// Command registry keeps the objects of Portolan.
//
//	registry [flags]          runs the registry
//	registry export [flags]   writes a backup
//	registry import [flags]   fills an empty registry from a backup
//	registry installation [flags]   prints or changes the identity of a store
package main

import (
	"os"

	"portolan.dev/registry/program"
)

func main() { os.Exit(program.Main()) }
