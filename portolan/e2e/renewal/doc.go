// Package renewal runs installations with certificates that live for seconds, so that each daemon renews its
// certificate several times during a test.
//
// The promise that the tests hold: no operator and no timer is needed, no call fails because of a
// renewal, and a daemon that restarts after its first certificate has expired begins with the
// renewed one.
package renewal
