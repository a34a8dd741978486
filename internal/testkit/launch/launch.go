// Package launch builds commands of this checkout for tests, and reaches a daemon on a Unix socket.
package launch

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Root returns the folder of this checkout.
func Root(ctx context.Context) (string, error) {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/pawl-locks/pawl").Output()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	return strings.TrimSpace(string(dir)), nil
}

// Build builds the command in a folder of the checkout, such as cmd/pawld, into the file out. flags are
// those of go build.
func Build(ctx context.Context, out, folder string, flags ...string) error {
	root, err := Root(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, flags...), "-o", out, ".")...)
	cmd.Dir = filepath.Join(root, folder)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", folder, err, text)
	}
	return nil
}

// Socket returns the path of a socket that is yet to be made. It is short, as those of Unix sockets
// must be, and every user may reach it.
func Socket(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawld")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "s")
}

// Listens reports whether somebody listens on socket.
func Listens(socket string) bool {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// Transport connects to socket, whatever the URL.
func Transport(socket string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
}
