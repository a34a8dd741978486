//go:build !linux

package supervise

import "os"

// pageFile is a file without a name.
func pageFile() (*os.File, error) {
	f, err := os.CreateTemp("", "pawl-page-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
