// Command registrar registers the containers and units of its node as backends of services.
package main

import (
	"os"

	"portolan.dev/registrar"
)

func main() { os.Exit(registrar.Main()) }
