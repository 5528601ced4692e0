// Package registrar tests the registrar with a real registry, endpoint controller and node agent, all in
// one process, and with a source that reports what a test says.
package registrar
