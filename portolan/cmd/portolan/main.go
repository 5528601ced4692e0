// Command portolan is the command line of Portolan, and a whole installation in one process.
package main

import (
	"os"

	"portolan.dev/portolan/internal/cli"
)

func main() { os.Exit(cli.Program()) }
