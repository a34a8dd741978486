package peer

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// TokenIs returns a Listener's Token that accepts this one.
func TokenIs(token string) func(given string) bool {
	want := sha256.Sum256([]byte(token))
	return func(given string) bool {
		hash := sha256.Sum256([]byte(given))
		return subtle.ConstantTimeCompare(hash[:], want[:]) == 1
	}
}

// TokenIn returns a Listener's Token that accepts the one in the file at path, which it reads at each
// request. While the file cannot be used, the token that it held before is accepted. log gets one line
// when that begins, and one when it ends. At first the file has to be right.
//
// Nobody may read the file but its owner, or, if it is root's, a group of this process. Such are the
// files of a Secret that Kubernetes mounts with fsGroup, whatever its mode says.
func TokenIn(path string, log *slog.Logger) (func(given string) bool, error) {
	token, err := readToken(path)
	if err != nil {
		return nil, err
	}
	f := &tokenFile{path: path, log: log, accepts: TokenIs(token)}
	return func(given string) bool { return f.now()(given) }, nil
}

// A tokenFile is a file with a token, and what was read last.
type tokenFile struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	accepts func(given string) bool
	fault   string // "" if the file could be used
}

// now reads the file, and returns what accepts its token.
func (f *tokenFile) now() func(given string) bool {
	token, err := readToken(f.path)
	f.mu.Lock()
	defer f.mu.Unlock()
	before, fault := f.fault, ""
	if err != nil {
		fault = err.Error()
	} else {
		f.accepts = TokenIs(token)
	}
	switch f.fault = fault; {
	case fault == before:
	case fault == "":
		f.log.Info("the file of --token-file can be used again")
	default:
		f.log.Error("the file of --token-file cannot be used: the token that it held before is accepted", "error", fault)
	}
	return f.accepts
}

func readToken(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	of, _ := info.Sys().(*syscall.Stat_t)
	groups, _ := os.Getgroups() // without them the file is refused
	if !private(info.Mode(), of, append(groups, os.Getegid())) {
		return "", fmt.Errorf("token file %s can be read by others (mode %v): make it 0600, or root's, with a group of pawld's and 0640", path, info.Mode().Perm())
	}
	b, err := io.ReadAll(file)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if len(token) < 16 {
		return "", fmt.Errorf("token file %s has a token of %d bytes, want 16 or more", path, len(token))
	}
	return token, nil
}

// private reports whether a file with that mode and owner is for a process with these groups.
func private(mode os.FileMode, of *syscall.Stat_t, groups []int) bool {
	if mode.Perm()&0o077 == 0 {
		return true
	}
	return mode.Perm()&0o037 == 0 && of != nil && of.Uid == 0 && slices.Contains(groups, int(of.Gid))
}
