// Package bearer has the format of the tokens by which clients of kubeapi prove their identity without a
// certificate:
//
//	portolan.NAME.SECRET
//
// NAME is the name of an object of the kind Token, so that kubeapi finds the object by a lookup. SECRET
// is 32 random bytes in base64url. The object has the SHA-256 of SECRET and not SECRET itself, so that a
// reader of the registry, its log or a backup cannot send the token. A slow hash, as for passwords, is not
// needed, because 256 random bits cannot be guessed. And strangers could make kubeapi compute slow hashes.
//
// The alternative, signed tokens that need no object (JWT), cannot be revoked one by one without a list
// of them, and need a key that makes tokens of any role.
package bearer
