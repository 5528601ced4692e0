package store

import "fmt"

// CheckRestored returns an error if a row cannot be part of a restored store with the given newest
// revision.
func CheckRestored(row Row, newest uint64) error {
	switch {
	case row.Key.Kind == "" || row.Key.Name == "" || row.UID == "" || len(row.Data) == 0:
		return fmt.Errorf("restore %s: incomplete", row.Key)
	case row.Revision == 0 || row.Revision > newest:
		return fmt.Errorf("restore %s: revision %d is not between 1 and %d", row.Key, row.Revision, newest)
	}
	return nil
}
