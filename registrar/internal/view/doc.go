// Package view holds what the registrar needs of the registry: its own pods, and of each service what
// its backends must have. A registrar on a node with ten containers follows all services of an
// installation, so of a service it keeps its selector and its ports and nothing else.
package view
