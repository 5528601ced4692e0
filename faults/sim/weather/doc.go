// Package weather decides what happens to each message of a simulation: how late it is, and whether it is lost,
// comes twice or overtakes others.
//
// The decisions of a link depend on the seed, the link's name and how many messages it has carried, and on nothing
// else. So they are the same in another run of the same seed as long as the daemons send the same messages, and
// a message that one link loses changes nothing on the others.
package weather
