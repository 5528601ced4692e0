// Package tokens finds the identity of the token in a request.
//
// The table of all Tokens follows the registry's log, so a request costs a lookup in memory and one
// SHA-256, for valid and invalid tokens alike, and a client that guesses tokens uses no memory. If a token is
// deleted, or its identity or creator is revoked, it is refused as soon as the change arrives, and the watches
// that it opened end. While the registry cannot be reached the table stays as it is: tokens are valid until
// they expire, as certificates are.
//
// A Revocation of an identity denies the tokens of this identity and the tokens that this identity created.
// A thief of an operator's key can create tokens that would outlive the certificate. One command, which
// revokes the identity, must be enough to lock the thief out.
package tokens
