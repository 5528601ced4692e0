// Package containers tests docs/containers.md: with the lines of that document, the containers of a Docker
// Compose project find services by name and reach them by virtual IP.
//
// The engine, the agent and the containers are in the namespace of a node that labtest made. The engine
// is the machine's program with folders of its own. The machine's own engine would put its networks
// into the machine's namespace, where the agent's rules would have to be, too.
package containers
