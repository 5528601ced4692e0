// Package dir applies the manifests of a folder whenever they change, and prunes the objects that the
// folder no longer has (services/applyset).
//
// The folder is read as a whole: when the kernel reports a change, after a short quiet time, and
// periodically. The periodic read finds what the kernel does not report, such as changes on network file
// systems or behind a chain of links, and it takes back what others changed in the registry meanwhile.
//
// The invariants: the registry gets nothing of a folder with a mistake in any file, because a set with a
// missing file looks like one whose objects were removed; and a folder without any manifest is an error,
// because it is more often a mount that is missing than a wish to delete everything.
//
// Whoever can change the folder has the rights of the certificate with which it is applied, but does not
// read other files of the machine: links that lead out of the folder are refused.
//
// Two shapes were possible. In the first, each event of a file is applied by itself. It needs to remember
// which file had which object, also over restarts, and an event that is lost is an object that stays. In
// the second, which this is, events only say when to look. The price is that each change of a file reads
// all files, which is little beside the calls to the registry.
package dir
