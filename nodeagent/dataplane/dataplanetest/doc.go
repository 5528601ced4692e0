// Package dataplanetest holds data planes to their contract by real traffic.
//
// Run plays every scenario on a rig: something that has a plane, can start
// backends behind it and connect clients through it, from a pod, from the node
// and from outside. What a plane does differently from others, and says so, is
// data (Traits), not a skipped test.
//
// Scenarios are data too: what is programmed, who connects, and who has to
// answer. So they read like the contract, and a rig in another kernel or on
// another machine plays the same ones.
package dataplanetest
