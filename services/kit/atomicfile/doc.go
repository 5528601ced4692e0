// Package atomicfile writes files that appear under their name only when they are complete.
//
//	err := atomicfile.WriteFile(path, data, 0o600)
//
//	f, err := atomicfile.Create(path, 0o600)
//	defer f.Discard()
//	… write to f …
//	err = f.Commit()
//
// The invariant: a reader of the path, also one after a crash of the machine, finds the complete old
// file or the complete new one. The contents are written to a temporary file in the same folder,
// synced to the disk, and renamed. Until then only the file's owner can read them.
//
// A link at the path is replaced, and its target stays as it is. The new file belongs to the user of
// this process.
//
// # Instead of a library
//
// The standard library has no such function. github.com/google/renameio replaces a file with
// permissions, but it does not sync the folder, does not build its functions for Windows, where the
// command line runs, and cannot keep an existing file as CommitNew does.
//
// # Other files that are renamed
//
// Rotated logs (services/kit/audit, edge/internal/accesslog) are renamed when they are complete. The
// kernel plane's journal (nodeagent/dataplane/kernel) goes on writing to its file after the rename
// and is never synced, because a crash of the machine loses the kernel's state too.
package atomicfile
