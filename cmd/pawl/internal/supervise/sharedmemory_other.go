//go:build !linux

package supervise

import "os"

// memoryFile is a file without a name.
func memoryFile() (*os.File, error) {
	f, err := os.CreateTemp("", "pawl-shared-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
