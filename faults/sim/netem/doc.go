// Package netem emulates the links of simulated daemons: for each message it decides the delay, and
// whether the message is lost, duplicated or reordered. The Linux queueing discipline
// netem does the same for packets.
//
// The decisions of a link depend only on the seed, the link's name and the number of messages that
// the link has carried. So they are the same in another run of the same seed as long as the daemons
// send the same messages, and the loss of a message on one link does not affect other links.
package netem
