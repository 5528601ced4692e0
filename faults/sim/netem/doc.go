// Package weather decides about each message of a simulation: how late it is, and whether it is
// lost, comes twice or overtakes others.
//
// The decisions of a link depend only on the seed, the link's name and the number of messages that
// it has carried. So they are the same in another run of the same seed as long as the daemons send
// the same messages, and a message that one link loses changes nothing on the others.
package netem
