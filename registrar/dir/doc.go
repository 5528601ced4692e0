// Package dir applies the manifests of a folder when they change, and prunes the objects that the folder no
// longer has (services/applyset).
//
// All files are read each time: shortly after the kernel reports a change, and periodically. The periodic read
// finds changes that the kernel does not report, such as on network file systems or behind a chain of links.
// It also reverts changes that others made to the objects in the registry.
//
// There are two invariants. If any file has a mistake, nothing is applied, because the objects of a file that
// cannot be read would look like removed ones. A folder without any manifest is an error, because a missing
// mount is more likely than the wish to delete everything.
//
// A user with write access to the folder has the rights of the certificate with which the registrar applies it.
// Such a user cannot make the registrar read other files of the machine, because links that lead out of the folder
// are refused.
//
// The alternative was to apply each file by itself when its event arrives. The registrar would have to
// remember which file had which object, over restarts too, and after a lost event an object would stay. The
// price of reading all files at each change is small beside the calls to the registry.
package dir
