// Package faults is the module of fault-injection tests. Some tests run a whole installation and
// kill its processes, pause them, cut their network or fill their disks. Others simulate daemons in
// virtual time. Checkers look for broken promises during and after the faults. docs/reliability.md
// lists the promises and the measurements.
//
// The packages of this module may import all other modules. Only tests import them.
package faults
