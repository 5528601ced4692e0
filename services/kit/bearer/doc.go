// Package bearer has the texts by which clients of kubeapi prove who they are without a certificate:
//
//	portolan.NAME.SECRET
//
// NAME is the name of an object of the kind Token, so that kubeapi finds the object by a lookup. SECRET
// is 32 random bytes in base64url. The object has the SHA-256 of SECRET and not SECRET itself: who reads
// the registry, its log or a backup cannot send the token. A hash that is slow on purpose, as for
// passwords, would add nothing, because 256 random bits cannot be guessed, and would let strangers make
// kubeapi compute it.
//
// The alternative, signed tokens that need no object (JWT), cannot be revoked one by one without a list
// of them, and need a key that makes tokens of any role.
package bearer
