// Package registrar tests the registrar with a real registry, endpoint controller and node agent, all in
// one process, and with a source whose reports are made by the test.
package registrar
