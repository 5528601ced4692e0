package manifest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// extensions are the extensions of the files of a folder that are manifests.
var extensions = []string{".yaml", ".yml", ".json"}

// File is a file with manifests.
type File struct {
	// Name is the name for people: it begins with the folder as it was given.
	Name string
	// Path is the path to read. It is below the folder that a link pointed to when the files were listed,
	// so that the files of one list are of one version if the link is replaced meanwhile.
	Path string
	// Folder is the folder that Path is below, without links. It is empty if the source is the file.
	Folder string
}

// Files returns a file itself, or the manifests of a folder and the folders in it, ordered by name. A
// link to a folder is followed if it is the source. Hidden files and folders are left out: tools that
// replace a folder as a whole keep its versions in hidden folders beside links to them.
func Files(source string) ([]File, error) {
	info, err := os.Stat(source)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []File{{Name: source, Path: source}}, nil
	}
	root, err := filepath.EvalSymlinks(source)
	if err != nil {
		return nil, err
	}
	var files []File
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == root:
			return nil
		case IsHidden(entry.Name()) && entry.IsDir():
			return fs.SkipDir
		case entry.IsDir(), IsHidden(entry.Name()), !slices.Contains(extensions, filepath.Ext(path)):
			return nil
		}
		relative, err := filepath.Rel(root, path)
		files = append(files, File{Name: filepath.Join(source, relative), Path: path, Folder: root})
		return err
	})
	return files, err
}

// IsHidden reports whether the name of a file or folder is hidden.
func IsHidden(name string) bool { return strings.HasPrefix(name, ".") }
