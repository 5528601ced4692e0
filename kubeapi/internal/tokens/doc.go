// Package tokens has the Tokens of the registry, and finds the identity for the token of a request.
//
// The table follows the registry's log, so a request costs a lookup in memory and one SHA-256, whether
// the token is good or not, and a client that guesses leaves nothing behind. A token that is deleted, or
// whose identity or creator is revoked, is refused as soon as the change arrives, and ends the watches that
// it opened. Without a registry the table stays as it is: tokens are good until they expire, as
// certificates are.
//
// A Revocation of an identity denies tokens too: those that stand for the identity, and those that it
// created. Whoever steals an operator's key can make tokens with it, which would outlive the
// certificate. One command, which revokes the identity, must be enough to keep him out.
package tokens
