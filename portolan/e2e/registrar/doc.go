// Package registrar tests the registrar with a real registry, endpoint controller and node agent, all in
// one process. The test itself is the source: it makes the reports.
package registrar
