package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
)

// socket checks that a socket exists, who may connect to it, and that somebody serves it. It
// returns false if this user cannot connect.
func (d *doctor) socket(ctx context.Context, path string) bool {
	start := "start pawld (systemctl start pawld.service), or name what its --socket names"
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.wrong("socket", path, "does not exist", start)
		return false
	case err != nil:
		d.wrong("socket", path, fmt.Sprintf("cannot be looked at: %v", err), "let this user into its directory: chmod o+x, or its group")
		return false
	case info.Mode()&fs.ModeSocket == 0:
		d.wrong("socket", path, "is no socket", start)
		return false
	}
	may := mayConnect(info)
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		d.wrong("socket", path, fmt.Sprintf("user %d may not connect: %s may", os.Getuid(), may), "add this user to that group (usermod -aG), and log in again; --socket-group sets the group")
		return false
	case errors.Is(err, syscall.ECONNREFUSED):
		d.wrong("socket", path, "nobody serves it: pawld died", "start it again (systemctl restart pawld.service); it replaces the socket")
		return false
	case err != nil:
		d.wrong("socket", path, fmt.Sprintf("cannot be connected to: %v", err), start)
		return false
	}
	_ = c.Close()
	switch dir, derr := os.Stat(filepath.Dir(path)); {
	case derr == nil && dir.Mode().Perm()&0o002 != 0 && dir.Mode()&fs.ModeSticky == 0:
		d.wrong("socket", path, "everybody may put another socket in its place", "chmod o-w "+cli.ShellWord(filepath.Dir(path)))
	case info.Mode().Perm()&0o002 != 0:
		d.odd("socket", path, "everybody on this machine may connect", "chmod o-rw "+cli.ShellWord(path)+", and let users in by their group: --socket-group")
	default:
		d.ok("socket", path, "%s may connect", may)
	}
	return true
}

// mayConnect says who may write to a socket, which is what connecting takes.
func mayConnect(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Mode().String()
	}
	who := "user " + strconv.Itoa(int(st.Uid))
	if u, err := user.LookupId(strconv.Itoa(int(st.Uid))); err == nil {
		who = "user " + u.Username
	}
	if info.Mode().Perm()&0o020 != 0 {
		group := strconv.Itoa(int(st.Gid))
		if g, err := user.LookupGroupId(group); err == nil {
			group = g.Name
		}
		who += " and group " + group
	}
	return who
}
