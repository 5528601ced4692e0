// Package script runs the scripts of exec checks.
//
// A node agent runs as root, and every client that may write pods chooses the commands of their checks.
// A command therefore cannot name a program of the node. It names a script that the node's administrator
// has put into one folder, and its arguments are passed without a shell. The folder, the folders above it and
// the script belong to root, or to the agent's user if the agent is not root, and no other user can write to
// them.
// A script runs as an unprivileged user, in a process group of its own that ends with the check,
// without the agent's environment, and with no way to gain privileges.
//
// The alternative was a command inside of the container, as in Kubernetes. It needs a container runtime, which
// a pod of Portolan need not have, and access to the runtime as root.
package script
