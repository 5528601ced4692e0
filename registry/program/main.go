package program

import "portolan.dev/services/daemon"

// Main is the main function of the program, and of its commands export, import and installation.
func Main() int { return daemon.MainWithCommands("registry", commands(), New) }
