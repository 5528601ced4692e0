package program

import "portolan.dev/services/daemon"

// Main is the main function of the program, and of its commands export and import.
func Main() int { return daemon.MainWithCommands("allocator", dumpCommands(), New) }
