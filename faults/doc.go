// Package faults is the module of fault-injection tests. Some tests run a whole installation and
// kill its processes, pause them, cut them off from each other or fill their disks. Others simulate
// daemons in virtual time. Checkers look for broken promises during the faults and after them.
// docs/reliability.md lists the promises and the measurements.
//
// Its packages may import all others. Only tests import them.
package faults
